//! The doors for programs: HTTP in the dialects of the clients.
