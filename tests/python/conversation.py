"""The official OpenAI client against a running gateway: completes, streams, continues. Called by openai_python.rs.

usage: conversation.py BASE_URL PART
"""

import sys

from openai import APIStatusError, OpenAI

base_url, part = sys.argv[1:]
client = OpenAI(base_url=base_url, api_key="none", max_retries=0)
session = {"x-engineroom-session": "python"}


def ask(text, **more):
    return client.chat.completions.with_raw_response.create(
        model="offline",
        messages=[{"role": "user", "content": text}],
        extra_headers=session,
        **more,
    )


if part == "first":
    raw = ask("My harbour pilot is called Marisol.")
    assert raw.headers["x-engineroom-engine"] == "window", raw.headers
    completion = raw.parse()
    assert completion.object == "chat.completion", completion
    assert completion.choices[0].message.role == "assistant", completion
    assert completion.choices[0].finish_reason == "stop", completion
    assert completion.usage.prompt_tokens > 0, completion

    chunks = list(
        client.chat.completions.create(
            model="offline",
            messages=[{"role": "user", "content": "What is my harbour pilot called?"}],
            stream=True,
            stream_options={"include_usage": True},
            extra_headers=session,
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Marisol" in text, text
    assert len([chunk for chunk in chunks if chunk.choices]) > 2, "a stream of more than one piece"
    assert chunks[-1].usage is not None and chunks[-1].usage.total_tokens > 0, chunks[-1]

    assert any(model.id for model in client.models.list())
    try:
        client.chat.completions.create(model="offline", messages=[])
    except APIStatusError as error:
        assert error.status_code == 400, error
    else:
        raise AssertionError("an empty list of messages must be refused")
elif part == "second":
    completion = ask("Remind me: what is my harbour pilot called?").parse()
    assert "Marisol" in completion.choices[0].message.content, completion
else:
    raise SystemExit(f"no such part: {part}")
print("ok", part)
