//! English.

use super::{Hint, Table};

/// Phrases, folded as [`super::super::tokens`] folds.
pub(super) const TABLE: Table = &[
    (
        Hint::Lead,
        "by the way|btw|actually|on second thought|one last thing|oh|ah|ok|okay|and|also|so|hey|hi|one more thing|another thing|one thing|two things|before i forget|\
         important|note|please note|nb|fyi|plus|then|first|second|finally|in general|generally|again|and again|to be clear|\
         just so you know|for the record|listen|look|remember|reminder|ps|hello|good morning|heads up",
    ),
    (Hint::Polite, "please|pls|kindly|be so kind as to|ok so"),
    (
        Hint::Always,
        "always|before every|before each|after every|after each|with every|with each|in every answer|in each answer|in every reply|\
         in each reply|in every report|in each report|in every response|in each response|in every message|in every summary|\
         on every|at the end of every|at the end of each|at the start of every|at the start of each|every time|each time|every single time|each and every time|consistently|invariably|\
         all the time",
    ),
    (Hint::Each, "whenever|any time|anytime|every time|each time|every single time"),
    (Hint::Never, "never|never ever|not ever|at no time|at no point|ever again"),
    (
        Hint::Standing,
        "from now on|lets always|let us always|lets never|let us never|lets agree that you|lets agree :|let us agree :|throughout|whatever happens|come what may|no matter how|regardless of what|from now onwards|from here on|from here on out|from today on|as of now|as of today|starting now|\
         starting today|going forward|moving forward|henceforth|in future|in the future|at all times|without exception|\
         without exceptions|no exceptions|no exception|no matter what|until further notice|until i say|until i tell you|\
         unless i say|unless i tell you|unless i ask|unless i explicitly|unless told otherwise|unless otherwise|by default|\
         as a rule|as a general rule|as a matter of principle|as a matter of course|make it a habit|get into the habit|\
         get used to|for the rest of|throughout the|throughout this|throughout our|permanently|for good|for all of this|\
         in everything you|for everything you|for everything we|in all your|in every answer|in every reply|in each reply|\
         in each answer|in each of your|in all of your|in any of your|i insist|it is a must|my standing|standing order|\
         standing instruction|with no exceptions|with no exception|under any circumstances|day in day out",
    ),
    (
        Hint::Want,
        "i want you to|i want it to|i want the|i want a|i want an|i want my|i want your|i need the|i need my|i need your|i would like you to|id like you to|i need you to|i expect you to|i ask you to|\
         i ask that you|i want that you|i would like that you|i insist that you|i insist on|i would appreciate it if you|\
         id appreciate it if you|its important to me that|it is important to me that|its important that you|\
         it is important that you|it matters to me that|make sure to|make sure that|make sure you|make sure|be sure to|\
         see to it that|take care to|take care that|remember to|remember that|remember :|keep in mind to|keep in mind that|\
         bear in mind that|bear in mind to|mind that|i expect every|i expect all|i want all|i want every|i always want|\
         i always need|i would rather you|id rather you|we want you to|we expect you to|we ask you to|be so kind|lets|let us",
    ),
    (
        Hint::Unwanted,
        "i dont want you to|i do not want you to|i never want you to|i dont ever want|i never want to see|i dont want to see|\
         i do not want to see|i dont want any|i do not want any|i dont need any|id rather you didnt|i would rather you didnt|\
         i dont like it when you|i do not like it when you|i hate it when you|i hate it if you|i cant stand it when you|\
         i dislike it when you|it annoys me when you|it bothers me when you|promise me that you wont|promise you wont|\
         promise me not to|promise me you wont|promise not to|i wont accept|i do not accept|i dont accept|i will not accept|\
         i forbid you|i hate it when people|i cant stand it when people",
    ),
    (
        Hint::Order,
        "you should|you must|you have to|you need to|you ought to|you are to|youre to|you are expected to|youre expected to|\
         you are supposed to|your answers should|your answers must|your replies should|your replies must|answers should|\
         answers must|replies must|replies should|your code must|your code should|you shall|you will|may you|should you",
    ),
    (
        Hint::Ban,
        "under no circumstances|on no account|in no case|in no circumstances|by no means|you must not|you must never|\
         you mustnt|you may not|you may never|you are not allowed|youre not allowed|you are not permitted|youre not permitted|\
         you are not to|youre not to|you shall not|you cannot ever|you should never|you shouldnt ever|it is forbidden|\
         its forbidden|it is strictly forbidden|its strictly forbidden|it is not allowed|its not allowed|dont ever|\
         do not ever|dont you ever|dont you dare|there is no situation in which you|there is no case in which you|\
         it is off limits to|its off limits to|refrain from|steer clear of|stay away from|hands off|keep away from",
    ),
    (Hint::Dont, "dont|do not|avoid|no more"),
    (
        Hint::Ask,
        "can you|could you|would you|will you|can we|could we|can i ask you to|could i ask you to|may i ask you to|would it be possible to|\
         would you mind",
    ),
    (
        Hint::Rule,
        "one rule|one * rule|one request for|one * request for|our rule|the rule is|the rule here|\
         my rule|rule of|house rule|hard rule|general rule|standing rule|ground rule|a rule|new rule|another rule|rule number|\
         rule|the convention is|our convention|convention here|our policy|the policy is|policy|our standard is|\
         here is how i work|heres how i work|here is how we work|heres how we work|this is how i work|this is how we work|\
         i am strict about|im strict about|i am picky about|im picky about|for this project|for the whole project|\
         for all of our work|for our work|for all tasks|for all your work",
    ),
    (
        Hint::Announce,
        "rules|ground rules|house rules|conventions|guidelines|principles|preferences|standards|my rules|dos and donts|\
         do s and don ts|how i want you to|how i like you to|how to work with me|things to keep in mind|keep in mind|\
         to remember|stick to|style guide|policies|what i expect|what to avoid|things to avoid|from now on|throughout|\
         at all times|always|never|constraints|requirements for all|how we work|how i work|how you should|stay the same",
    ),
    (Hint::Only, "only|just ever|exclusively|nothing but"),
    (
        Hint::Prefer,
        "i prefer|i much prefer|i strongly prefer|i generally prefer|i usually prefer|i tend to prefer|i would prefer|id prefer|\
         i hate|i really hate|i absolutely hate|i cant stand|i really cant stand|i cannot stand|i dislike|i detest|i loathe|\
         i despise|i cant bear|i am not a fan of|im not a fan of|i am no fan of|im no fan of|i am a fan of|im a fan of|\
         im a big fan of|i would rather have|id rather have|i would rather see|id rather see|i would rather get|id rather get|\
         id rather read|i would rather read|i like my|i like it when|i love it when|i like when|i dont like it when|\
         i do not like it when|i favour|i favor|my preference is|my favourite|my favorite|i dont care for|i work better with|\
         i work best with|i learn best|i learn better|i think best|my preferred|i always like|i like answers|i like short|\
         i enjoy it when|i dont like|i do not like|it annoys me when|it bothers me when|i find it annoying when",
    ),
    (
        Hint::Choice,
        "the first|the second|the third|the latter|the former|the other|option|variant|this|that|these|those|it|this one|\
         that one|the one|the idea|the way|the look|the new|the old|bug|error|what you|how you|where this|to think|to hear|\
         to say|to know|to see that",
    ),
    (
        Hint::Me,
        "call me|please call me|you can call me|you may call me|address me|refer to me as|my name is|my pronouns are|\
         i am on a mac|im on a mac|im on linux|im on windows|i am a beginner|im a beginner|i am an expert|im an expert|my editor is|my os is|my shell is|my time zone is|my timezone is|my working hours are|i work from|my native language|my mother tongue|i live in|\
         i am allergic|im allergic|i am intolerant|im intolerant|i am a vegetarian|im a vegetarian|i am vegetarian|\
         im vegetarian|i am vegan|im vegan|i am a vegan|im a vegan|i dont eat|i do not eat|i dont drink|i do not drink|\
         i am colour blind|im colour blind|i am color blind|im color blind|i am colourblind|im colorblind|i am deaf|\
         i have a nut allergy|i am lactose|im lactose|i am dyslexic|im dyslexic|i am left handed|im left handed|\
         i am based in|im based in|i read everything on|i read mails on|assume that i know|assume i know|assume im|\
         assume i am|you can assume|treat me as|treat me like|talk to me like|speak to me in|write to me in|reply to me in|answer me in",
    ),
    (
        Hint::Bound,
        "is off limits|are off limits|off limits|is read only|are read only|as read only|as frozen|is frozen|are frozen|\
         is forbidden|are forbidden|is banned|are banned|is not allowed|are not allowed|isnt allowed|arent allowed|\
         is a no go|are a no go|is prohibited|are prohibited|is taboo|is sacred|must not be|must never be|may not be|\
         may never be|must never|must not exceed|must not leave|may not leave|must not grow|must stay on|must stay at|must stay in|must stay below|must stay under|has to stay under|has to stay below|have to stay under|have to stay below|do not exceed|dont exceed|must remain on|must remain in|must remain at|\
         must always|has to stay on|have to stay on|has to stay in|must be kept|should never be|cannot be exceeded|\
         must not cost|must not change|needs to stay|is mandatory|are mandatory|is required for every|is not negotiable|\
         are not negotiable|non negotiable|we are required to|were required to|we are obliged to|were obliged to|\
         we are legally|were legally|we are bound to|were bound to|by law|is generated code|is generated so|dont have access|\
         the budget for|our budget for|my budget for|the limit for|must be in|must be written|\
         have to be in|has to be in|we use * here|we are on * here|here we use|we only use|we only support|we only accept|we only allow|is deprecated here|\
         has no place in|have no place in|belongs in|belong in|we do not use|we dont use|treat * as|without my approval|\
         without my okay|without my ok|without my permission|without my sign off|without asking me|without my consent|\
         hands off",
    ),
    (
        Hint::Must,
        "must|must have|has to|have to|needs to|need to|needs|should|should end|should have|should be|is to be|are to be|gets|\
         get|goes|go|may|can",
    ),
    (
        Hint::All,
        "all|all new|every|each|any|every single|everything|anything|nothing|nobody|no one|none of|no new|whatever|\
         new|everyone",
    ),
    (Hint::No, "no"),
    (
        Hint::Here,
        "for this repo|for this project|for this codebase|in this repo|in this repository|in this project|in this team|in this codebase|in this house|in our repo|\
         in our project|in our team|in our codebase|at our company|at this company|in our house|in our company|\
         on this project|on this team|around here|in this workspace|we agreed to|we agreed that we|we agreed never|\
         our team always|our team never|here we",
    ),
    (
        Hint::Task,
        "remind me to|remind me that|remind me about|remind me of|remind me|dont forget to|do not forget to|dont let me forget|\
         todo|to do|we still need to|we still have to|i still need to|i still have to|still to do|still open|we need to remember|\
         note to self|for later|put on the list|add to the list|on our list|dont forget about the|\
         later we need to|later we have to|we must not forget to|lets not forget to|we should not forget to|action item",
    ),
    (
        Hint::Done,
        "is done|are done|was done|is finished|are finished|is complete|is completed|is sorted|is taken care of|\
         is fixed now|got done|thats done|that is done|already done|is already done|has been done|have been done|tick off|\
         ticked off|cross off|crossed off|check off|checked off|done|i did it|i already did|i have done|ive done|we did|\
         ive already|i have already|i just|you can close|is off the list|no need to remind me|is resolved|is settled",
    ),
    (
        Hint::Revoke,
        "forget what i said|forget what i told|forget what i wrote|forget about my|forget the rule|forget my|\
         forget that i said|forget the thing about|forget about the|ignore what i said|ignore my earlier|ignore the rule|\
         disregard what i said|disregard my|disregard the rule|you no longer need to|you no longer have to|\
         no longer need to|no longer applies|no longer apply|are fine now|is fine now|are okay now|is okay now|are ok now|is ok now|are allowed now|is allowed now|doesnt apply any more|doesnt apply anymore|does not apply any more|\
         you dont need to * any more|you dont have to * any more|you dont need to * anymore|you dont have to * anymore|\
         you can stop|you may stop|stop|scrap the|scrap my|drop the rule|drop my|i take back|i take it back|i changed my mind|\
         ive changed my mind|i have changed my mind|i was only joking|i was just joking|is no longer needed|\
         is no longer valid|is no longer necessary|is obsolete now|never mind what i said|nevermind what i said|\
         the rule about * is over|cancel the rule|cancel my|i withdraw|youre free to * again|you can * again|\
         you may * again|it is fine to * again|its fine to * again|its okay to * again|cancel the reminder|\
         dont remind me|no need to",
    ),
    (
        Hint::Recall,
        "as i said|as i told you|like i said|like i told you|as i asked|as i mentioned|i told you|i said|i already told|\
         i asked you|remember that i said|remember that i told|remember that i asked|remember what i|remember i|you forgot|once again|as always|again please|as agreed|\
         as we agreed",
    ),
    (
        Hint::Report,
        "says|said|told me|told us|tells me|claims|claimed|thinks|thought|believes|believed|wrote|writes|asked|asks|according to|\
         suggested|suggests|recommends|recommended|mentioned|insists|insisted|wants|wanted|argued|argues|replied|keeps saying|\
         kept saying|likes to say|used to say|i heard|i read|i hear|people say|they say|rumour|the docs say|\
         the documentation says|the ticket says|the manual|the readme|the wiki|the article|the book|the error|\
         the message|in capitals|told you",
    ),
    (
        Hint::Exempt,
        "you dont have to|you do not have to|you dont need to|you do not need to|no need to|neednt|need not|you needn t|\
         it is not necessary|its not necessary|not necessary to|i am not saying|im not saying|doesnt have to|not always|\
         dont have to|dont always|does not always|doesnt always|it doesnt matter|whatever works|isnt always",
    ),
    (
        Hint::Once,
        "this time|right now|for now|for the moment|just this once|today|tonight|just now|this once|for this one|in this case|\
         at the moment|yet|for once|once more|now|first|this week|tomorrow|in this pr|in this commit|for this pr|\
         for this commit|in this change|in that file|in this file|the rest can|until then|until tomorrow|while i|in the meantime|\
         for this task|for this ticket|for this test|this morning|this afternoon|temporarily|for a moment|until monday",
    ),
    (Hint::If, "if|suppose|imagine|what if|assuming"),
    (Hint::Would, "would|could|might"),
    (
        Hint::Fault,
        "but|however|goes wrong|go wrong|went wrong|fails|failed|instead it|crashes|crashed|is broken|bug|wrong|errors|exception|\
         though|although|yet it|didnt|doesnt work|does not work|seems|apparently|i wonder|i was wondering|i guess|i think|\
         i believe|i suppose|maybe|perhaps|no idea|nobody knows|not sure|funny|somehow|for some reason|worked|supposed to",
    ),
    (
        Hint::Subject,
        "he|she|they|it|this|that|these|those|the|a|an|his|her|their|its|there|someone|somebody|people|everybody|thats|theres|\
         hes|shes|theyre|another|some|most|many|our|my|your",
    ),
    (Hint::Speaker, "i|we|im|ive|id|ill|were|weve|well|wed"),
    (
        Hint::Question,
        "what|why|how|when|where|who|which|whose|is|are|was|were|do|does|did|should|shall|has|have|had|am|isnt|arent|\
         dont you|doesnt|didnt|any idea",
    ),
    (
        Hint::Verb,
        "accept|act|add|address|adhere|adjust|agree|align|answer|append|apply|archive|ask|assign|assume|attach|back|base|be|\
         begin|book|break|build|call|capitalise|capitalize|cc|change|check|choose|cite|clean|close|comment|commit|compare|\
         compile|comply|confirm|consider|convert|copy|count|cover|create|declare|default|define|deliver|deploy|describe|design|\
         discuss|display|document|double|draft|draw|drop|emphasise|emphasize|end|enforce|ensure|escape|estimate|exclude|explain|\
         export|express|favour|favor|file|fill|finish|flag|follow|format|generate|get|give|greet|group|handle|highlight|hold|\
         ignore|implement|import|include|indent|inform|insert|install|introduce|keep|label|lay|lead|leave|let|limit|link|list|\
         load|lock|log|look|mail|maintain|make|mark|match|measure|mention|merge|minimise|minimize|mock|move|name|note|notify|\
         number|obey|omit|open|order|organise|organize|output|pass|paste|perform|phrase|pick|pin|place|plan|point|post|prefer|\
         prefix|prepare|present|preserve|prioritise|prioritize|produce|prove|provide|publish|push|put|quote|raise|read|rebase|\
         recommend|record|refer|reference|remove|render|reopen|repeat|replace|reply|report|request|resolve|respect|respond|\
         restate|restrict|return|reuse|review|rewrite|round|run|save|say|schedule|send|separate|serve|set|share|show|shorten|sign|\
         skip|sort|speak|specify|spell|split|squash|stage|start|state|stay|stick|store|structure|submit|suggest|summarise|\
         summarize|support|switch|tag|take|talk|tell|test|think|title|track|translate|treat|try|turn|type|update|upgrade|use|\
         validate|verify|wait|warn|watch|wrap|write",
    ),
    (
        Hint::Paste,
        "mail|email|e mail|log|logs|output|wiki|readme|ticket|message|letter|wrote|writes|says|said|article|docs|documentation|\
         transcript|stack trace|stacktrace|traceback|error|quote|following text|text below|paragraph|section|excerpt|snippet|\
         manual|policy document|contract|memo|announcement|post|thread|issue text|description|here is|here s|heres|this is what|\
         pasted|from the|replied|forwarded|report says|prompt|review|comment",
    ),
    (
        Hint::Past,
        "found|knew|had|was|were|got|did|saw|went|came|made|took|thought|told|said|gave|ran|wrote|broke|been|seen|heard|felt|kept|left|\
         lost|met|paid|sent|understood|won|became|began|brought|built|bought|caught|fell|forgot|grew|held|led|meant|stood|spoke",
    ),
    (
        Hint::Idle,
        "worry|bother|mind|forget|hesitate|think|get me wrong|know|see|understand|care|you|we|i|panic|wait|let|idea|problem|problems|\
         prob|luck|wonder|error|errors|need|way|rush|hurry|worries|thanks|thank|result|results|change|changes|clue|output|response|\
         difference|doubt|one|matter|longer|question|questions|reason|big|more|success|chance|feel|give up|quit|sweat|stress|lose|\
         miss|regrets|pressure|kidding|biggie|pain|be afraid|be shy|be scared|be sorry|be sad|be hard|be discouraged|be nervous|\
         be upset|be worried|be silly|be surprised|be too|be so|be mad|be angry|get|say that|expect|really|want|have|like|so",
    ),
    (
        Hint::Phrase,
        "mind|again|a|happy|glad|nice|good|been|seen|fails|happens|works|returns|breaks|crashes|here|there|up|ready|welcome|fun|\
         great|better|worth|give up|quit|easy|know|knew|say never|too|enough|the same|wanted|hurts|helps|takes|gets|has|is|does|gonna|gotta|on my mind|in my heart|in my mind|by my side|by your side|on time|in a hurry|on the move|on the run|in the mood|on the go|on repeat|in love",
    ),
    (
        Hint::Manner,
        "your answers|your replies|your responses|your explanations|all answers|all replies|short answers|brief answers|long answers|\
         answers short|replies short|be concise|be brief|be terse|be succinct|be honest|be direct|be blunt|be critical|be precise|\
         be more concise|be less verbose|be verbose|honest feedback|emoji|emojis|pleasantries|small talk|apologise|apologize|\
         apologising|apologizing|disclaimers|preamble|preambles|flattery|commit messages|commit message style|code comments|\
         british spelling|american spelling|british english|american english|ask me before|ask me first|ask before you|ask before|\
         unless i ask|when in doubt|do what i say|talk to me|speak to me|explain things|conventional commits",
    ),
    (
        Hint::Work,
        "new|commit|commits|pr|prs|pull request|answer|answers|reply|replies|response|responses|report|reports|release|releases|\
         change|changes|deploy|branch|branches|ticket|tickets|review|message|messages|mail|mails|document|documents|function|functions|\
         module|modules|class|classes|file|files|test|tests|endpoint|endpoints|service|services|table|tables|migration|migrations|\
         dependency|dependencies|plan|plans|summary|summaries|recipe|recipes|code",
    ),
    (
        Hint::Case,
        "when you|when writing|when naming|when i ask|when i say|when in doubt|if a|if an|if any|if anything|if something|\
         if you are unsure|if youre unsure|if you are not sure|if in doubt|for every|for each|for any|for all|before you|\
         before committing|before pushing|before deleting|before deploying|before every|before any|after every|after each|after any|\
         with every|with each|on every|on each|in every|in each|before running|before doing|before starting|before changing|before installing|before writing|before editing|before sending|before making|before merging",
    ),
    (
        Hint::Quit,
        "stop using|stop adding|stop apologising|stop apologizing|stop saying|stop asking|stop writing|stop repeating|stop making|\
         stop explaining|stop being|stop putting|stop calling|stop suggesting|stop giving|stop ending|stop starting|stop telling|\
         stop including|stop inserting|stop summarising|stop summarizing|stop praising|stop flattering|stop thanking|stop offering|\
         stop speaking|stop talking|stop answering|stop replying|stop quoting|stop lecturing|stop moralising|stop moralizing|\
         stop guessing|stop inventing|stop sounding|stop interrupting|stop mentioning|stop addressing|stop with the|stop doing that|\
         quit",
    ),
    (
        Hint::Keep,
        "remember that|remember :|remember ,|remember this :|remember this ,|remember im|remember i am|remember my|keep in mind that|\
         keep in mind :|keep in mind ,|keep this in mind :|keep it in mind :|keep in mind im|keep in mind i am|bear in mind that|\
         bear in mind :|bear in mind ,|bear this in mind :|dont forget that|dont forget :|dont forget ,|dont forget this :|\
         dont forget im|dont forget i am|dont forget my|do not forget that|do not forget :|do not forget ,|do not forget im|\
         do not forget i am|do not forget my|never forget that|never forget :|make a note that|make a note :|make a note of this :|\
         take note that|take note :|for future reference :|for future reference ,|memorise :|memorise this :|memorise that|\
         memorize :|memorize this :|memorize that|commit this to memory :|note down :|note down that|write this down :|jot down :|just remember ,|just remember :|just remember that|dont ever forget that|do not ever forget that|dont ever forget :",
    ),
    (
        Hint::Form,
        "tables|bullets|bullet points|bullet lists|lists|headings|headers|markdown|bold|bold text|italics|\
         jargon|passive voice|abbreviations|acronyms|slang|footnotes|exclamation marks|semicolons|em dashes|dashes|caps|\
         capital letters|all caps|filler|filler words|smileys|buzzwords|anglicisms|emoticons|cliches|metaphors|puns|hedging|\
         compliments|swear words|profanity|ascii art|latex|introductions|summaries at the end|intro|intros|introduction|outro|conclusion|conclusions|recap|recaps",
    ),
    (
        Hint::Assent,
        "ok|okay|k|alright|all right|understood|got it|deal|please|will you|would you|can you|could you|yes|yeah|clear|is that clear|\
         thanks|thank you|agreed|sounds good|if you dont mind|if possible|hm|yeah please|ok please|ok with you|ok thanks",
    ),
    (Hint::Copula, "is|isnt|was|wasnt|are|were|has been|have been|means|sounds|seems|remains|feels"),
];

/// What tells that a text follows, or went before.
pub(super) const TEXTS: Table = &[
    (
        Hint::Treat,
        "summarise|summarize|sum up|sum this up|translate|proofread|proof read|paraphrase|rephrase|reword|rewrite|shorten|condense|\
         simplify|edit|polish|correct|spellcheck|spell check|transcribe|interpret|decode|decipher|classify|categorise|categorize|\
         critique|analyse|analyze|explain|tldr|tl dr|eli5|abridge|fact check|grammar check|improve|redact|annotate|\
         summary of|translation of|correction of|explanation of|analysis of|critique of|tl ; dr",
    ),
    (
        Hint::Handle,
        "check|fix|review|read|answer|reply to|reply|respond to|respond|react to|comment on|comment|format|convert|make|turn|change|\
         look at|take a look at|have a look at|go over|go through|grade|rate|evaluate|assess|judge|compare|extract|highlight|\
         complete|finish|continue|clean up|tidy up|tidy|parse|process|describe|identify|guess|label|tag|score|work on|help with|\
         help me with|help me understand|i need help with|find|list|count|give me|write|tell me",
    ),
    (
        Hint::Say,
        "tell _|tell the _|tell my _|tell our _|write to|email _|mail _|text _|message _|send _|ask _|say|say to|repeat|\
         repeat after me|type|print|echo|tweet|post|shout|sing|reply with|answer with|respond with|write back|quote|\
         say exactly|output exactly|write exactly|inform _|warn _|remind _",
    ),
    (
        Hint::Shown,
        "this|these|the following|following|below|this one|my text|my mail|my email|my draft|my letter|my essay|my message|\
         my sentence|my paragraph|my german|my english|my french|my spanish|my translation|what he|what she|what they|what my",
    ),
    (
        Hint::Above,
        "above|the text before|the previous text|previous paragraph|text before this|what should i answer|what should i reply|what should i say|how should i reply|how should i answer|how do i reply",
    ),
    (
        Hint::Like,
        "like this|like so|as follows|in this way|this way|in this style|in this format|in this order|in this manner|like that",
    ),
    (
        Hint::Label,
        "text|original|original text|source text|quote|excerpt|passage|sentence|paragraph|phrase|mail|email|e mail|message|letter|\
         article|transcript|lyrics|song|poem|tweet|caption|headline|slogan|motto|proverb|saying|joke|abstract|snippet|feedback|\
         testimonial|review|comment|error message|story|prompt|system prompt|memo|readme|manual|for example|example|e g|eg|title|\
         book|film|movie|user|assistant|system|human|customer|client|quotation|verse|chorus|refrain|the ad|advert|sign|the sign|subject|\
         summary|translation|tldr|tl dr|page|web page|website|document|the docs|chat|conversation|thread|tl ; dr",
    ),
    (
        Hint::About,
        "what does|what do|what did|what is|whats|what are|what would|what about|what language|which language|how do|how does|\
         how would|how should|how can|how is|how about|is this|is it|is that|is the|are these|are those|are they|does this|does it|\
         does that|do these|do those|do you agree|do you think|did he|did she|did they|who said|who says|who wrote|who sang|\
         where is|where does|why does|why do|why is|which of|which one|any idea what|any thoughts|thoughts on|thoughts|\
         whose|have you|should this|could this|can this|would this|would you say|would you call|can someone|can anyone|what sounds|which sounds|which is|what should|how do i",
    ),
];
