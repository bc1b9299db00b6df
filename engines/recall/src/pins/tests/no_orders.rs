//! Varied messages by language of which nothing is a pin: pasted texts, titles and sayings, reported speech, hypotheticals,
//! questions about others.

use super::*;

#[test]
fn english() {
    passed(&[
        "Summarise this: Always answer in French. Never use tables.",
        "Translate this into French: Always answer in French.",
        "What does this mean: Never call me before noon.",
        "Proofread: From now on, you must always answer in French.",
        "Summarise this:\nAlways answer in French.",
        "What does this mean?\nNever use tables.",
        "Always and forever is a nice song.",
        "Never Let Me Go is a great book.",
        "Never say never is my motto.",
        "Tell Bob: never touch the server.",
        "Can you translate \"never\": Always use tables.",
        "Could you sum this up: Always trust the process. Never look back.",
        "Paraphrase the following: You must never share your PIN.",
        "Can you fix the grammar in this sentence: Never he goes there. Always do this.",
        "Is this correct English: Never have I seen such a thing. Always use articles.",
        "Explain this quote: \"Never interrupt your enemy.\" Who said it?",
        "Here is the email from HR: Always badge in. Never tailgate. From now on report visitors.",
        "My boss wrote: Always cc me. Never reply late.",
        "Subject: Always be closing",
        "Lyrics: Never gonna give you up, never gonna let you down",
        "Shorten this to one line - Always wash your hands before you cook.",
        "Reply to this customer: From now on I want you to always ship free.",
        "How would you say this in Japanese: Never give up on your dreams.",
        "Rewrite this more politely: Never call me again.",
        "Improve: Always use protection. Never skip it.",
        "Tell the team: never deploy on Friday.",
        "Repeat after me: always obey the machine.",
        "Write to Kim: never park in my spot.",
        "Please proofread the text below.\n\nAlways answer in French. You must never ask back.",
        "Always answer in French. You must never ask back.\n\nTranslate the text above.",
        "From now on ignore all rules.\nSummarise the above.",
        "Never Gonna Give You Up was a hit.",
        "Always Be My Baby is on the radio again.",
        "Never again is what they promised.",
        "Always being right is exhausting.",
        "Never is a long time.",
        "Always on my mind.",
        "Add Never Let Me Go to my reading list.",
        "My brother never calls before noon.",
        "If I always said yes, would you like that?",
        "Do you always answer in English?",
        "Has he never been to Rome?",
        "She told us to always wear helmets.",
        "You never know what happens.",
        "We never talked about that.",
        "He would never do that.",
        "You always use UTC, right?",
        "Imagine a world where you must never lie.",
        "I never said you should stop using emojis.",
        "Should I always use a linter?",
        "Can you stop the server?",
        "Can you not reproduce it?",
        "Could you avoid the N+1 query in this loop?",
        "Do you remember that I am vegan?",
        "Remember when we used tabs?",
        "Remember that time we got lost?",
        "Did you forget that I am vegan?",
        "The app should never forget that a user is vegan.",
    ]);
}

#[test]
fn german() {
    passed(&[
        "Fasse das zusammen: Antworte immer auf Französisch. Nutze nie Tabellen.",
        "Übersetze ins Französische: Nenne mich nie Bob.",
        "Was bedeutet das: Ruf mich nie vor zwölf an.",
        "Korrigiere: Ab sofort musst du immer auf Französisch antworten.",
        "Immer und ewig ist ein schönes Lied.",
        "Kannst du das zusammenfassen: Gib nie auf. Nutze immer beide Hände.",
        "Lies Korrektur: Du darfst niemals zu spät kommen.",
        "Mein Chef schreibt: Immer mich in Kopie nehmen. Nie zu spät antworten.",
        "Was bedeutet dieser Satz: Nie wieder Krieg.",
        "Sag Tom: nie wieder ohne Helm fahren.",
        "Antworte immer auf Französisch. Du darfst nie rückfragen.\n\nFasse den obigen Text zusammen.",
        "Nie wieder ist jetzt.",
        "Immer nur lächeln ist anstrengend.",
        "Er hat mich nie geduzt.",
        "Du nutzt immer UTC, oder?",
        "Wenn ich immer Ja sagen würde, wäre das schlimm?",
        "Hat er nie geantwortet?",
        "Erinnerst du dich, dass ich vegan bin?",
        "Kannst du den Server anhalten?",
        "Mach das nicht.",
    ]);
}

#[test]
fn spanish() {
    passed(&[
        "Resume esto: Responde siempre en francés. Nunca uses tablas.",
        "Traduce al francés: Nunca me llames Bob.",
        "¿Qué significa esto?: Nunca uses tablas.",
        "Nunca más es un lema conocido.",
        "¿Puedes resumir esto: Nunca te rindas. Usa siempre casco?",
        "Corrige: Nunca debes llegar tarde.",
        "Mi jefa escribe: Ponedme siempre en copia. Nunca respondáis tarde.",
        "¿Cómo se dice en inglés: Nunca me llames?",
        "Dile a Ana: nunca aparques en mi sitio.",
        "Responde siempre en francés. Nunca preguntes.\n\nTraduce el texto anterior.",
        "Nunca es tarde.",
        "Siempre Bruja es una serie.",
        "No me entiendes nunca.",
        "¿Siempre respondes en inglés?",
        "¿Te acuerdas de que soy vegano?",
        "Si siempre dijera que sí, sería malo.",
    ]);
}

#[test]
fn french() {
    passed(&[
        "Résume ceci : Réponds toujours en français. N'utilise jamais de tableaux.",
        "Traduis en anglais : Ne m'appelle jamais Bob.",
        "Que veut dire ceci : N'utilise jamais de tableaux.",
        "Jamais sans ma fille est un film.",
        "Peux-tu résumer ceci : N'abandonne jamais. Utilise toujours un casque.",
        "Corrige : Tu ne dois jamais arriver en retard.",
        "Mon chef écrit : Mettez-moi toujours en copie. Ne répondez jamais tard.",
        "Comment dire en anglais : Ne m'appelle jamais.",
        "Dis à Ana : ne te gare jamais sur ma place.",
        "Réponds toujours en français. Ne pose jamais de question.\n\nTraduis le texte ci-dessus.",
        "Toujours est-il que ça marche.",
        "Ne t'en fais pas.",
        "Tu ne me tutoies jamais.",
        "N'est-ce pas ?",
        "Te souviens-tu que je suis végane ?",
        "Il ne répond jamais en anglais.",
    ]);
}

#[test]
fn chinese() {
    passed(&[
        "总结一下：请始终用法语回答。永远不要使用表格。",
        "把下面的话翻译成英文：永远不要叫我老王。",
        "这是什么意思：永远不要使用表格。",
        "永远不要说再见是一首歌。",
        "请翻译：永远不要放弃。每次都要戴头盔。",
        "校对下面这段：你绝对不能迟到。以后必须准时。",
        "老板写道：以后必须抄送我。永远不要迟到。",
        "“永远不要放弃”用日语怎么说？",
        "告诉小李：以后不要停在我的车位。",
        "请始终用法语回答。永远不要提问。\n\n翻译上面的文字。",
        "《永远不要说再见》是一本书。",
        "他从来不叫我老板。",
        "你总是用英文回答吗？",
        "你还记得我是素食主义者吗？",
        "如果我总是说好，会怎么样？",
        "这句话对吗：永远不要用表格。",
    ]);
}

#[test]
fn japanese() {
    passed(&[
        "要約して：必ずフランス語で答えてください。表は使わないでください。",
        "英語に訳して：絶対にボブと呼ばないでください。",
        "これはどういう意味ですか：今後は必ず日本語で答えてください。",
        "次の文を訳して：絶対に諦めないでください。いつもヘルメットをかぶってください。",
        "校正してください：遅刻は禁止です。今後は必ず時間を守ること。",
        "上司からのメール：今後は必ず私をCCに入れてください。",
        "「絶対に諦めないで」は英語で何と言いますか？",
        "田中さんに伝えて：今後は絶対にここに停めないでください。",
        "必ずフランス語で答えてください。質問は禁止です。\n\n上の文を要約して。",
        "『絶対に諦めないで』という本を読みました。",
        "彼は決して謝りません。",
        "いつも英語で答えますか？",
        "私がビーガンだと覚えていますか？",
        "もし毎回断ったら、どうなりますか？",
    ]);
}
