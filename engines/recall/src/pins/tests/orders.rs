//! Varied sentences by language that are each one pin, whole: facts to keep in mind, habits to stop, questions and negated orders,
//! orders that ask for assent.

use super::*;

#[test]
fn english() {
    pinned(&[
        "Remember: the vault code is 4471.",
        "Please remember: the vault code is 4471.",
        "Do not forget that I am vegan.",
        "Could you stop using emojis?",
        "never ever call me Bob, ok?",
        "Ne me tutoie jamais.",
        "Remember this: never use tables.",
        "Keep this in mind: I report to Dana.",
        "Don't forget: my desk is in Lisbon.",
        "Please keep in mind that our cluster runs on ARM.",
        "Would you please stop apologising?",
        "Can you call me Max from now on?",
        "Can you please not use tables?",
        "Could you answer in German, please?",
        "Don't use bullet points, okay?",
        "Always lint first, understood?",
        "Please remember that my sister's name is Ioana.",
        "Keep in mind: the client pays in kroner.",
        "Don't forget I'm on a Mac.",
        "For future reference: the staging password rotates weekly.",
        "Memorise this: Project Heron ships on the 4th.",
        "Would you mind not using bullet points?",
        "Can you please stop calling me sir?",
        "Could we skip the pleasantries?",
        "Can you be more concise?",
        "Can you keep your answers under ten lines?",
        "Will you stop apologising all the time?",
        "Never guess at an API, understood?",
        "Please don't use tables, okay?",
        "Don't call me buddy, will you?",
        "Speak French with me.",
        "Reply in Korean.",
        "No headings, please.",
        "Without jargon, please.",
        "Use no emojis.",
        "Avoid passive voice.",
        "Always check that the file is closed.",
        "Never assume the API is stable.",
        "Always explain what it means for the reader.",
        "Never deploy code that is untested.",
        "Always include how much it costs.",
        "Always bring up security risks first.",
        "Never touch files you are unsure about.",
        "Do it like this: never more than three bullet points.",
        "From now on: short answers, never any filler.",
        "My rule is simple: never merge on red.",
        "Note to self and to you: always sign the commits.",
        "What I want: always the short version first.",
        "Never use \"simply\" in docs, ok?",
    ]);
}

#[test]
fn german() {
    pinned(&[
        "Merk dir: der Code für den Tresor ist 4471.",
        "Bitte merke dir, dass ich Linkshänder bin.",
        "Vergiss nicht, dass ich vegan bin.",
        "Kannst du bitte aufhören, Emojis zu verwenden?",
        "Kannst du die Emojis weglassen?",
        "Nenn mich nie wieder Schatz, ok?",
        "Duz mich bitte nie.",
        "Verwende keine Tabellen.",
        "Antworte auf Japanisch.",
        "Merk dir bitte, dass ich nur nachmittags arbeite.",
        "Denk dran: der Kunde zahlt in Franken.",
        "Vergiss bitte nie, dass wir in der Schweiz sind.",
        "Nicht vergessen: der Schlüssel liegt bei Ute.",
        "Könntest du bitte keine Tabellen mehr benutzen?",
        "Kannst du auf Englisch antworten?",
        "Kannst du mich bitte Tom nennen?",
        "Hör bitte auf, dich zu entschuldigen.",
        "Benutz bitte keine Abkürzungen.",
        "Sprich Deutsch mit mir.",
        "Schreib nie Passiv, ja?",
        "Ohne Fachjargon, bitte.",
        "Sieze mich nicht.",
        "Immer prüfen, ob alles da ist.",
    ]);
}

#[test]
fn spanish() {
    pinned(&[
        "Recuerda: la clave de la caja es 4471.",
        "No olvides que soy vegano.",
        "¿Podrías dejar de usar emojis?",
        "Nunca me llames Pepe, ¿vale?",
        "No me tutees nunca.",
        "No uses tablas.",
        "Responde en japonés.",
        "Ten en cuenta que trabajo desde Bogotá.",
        "Recuerda: el cliente paga en pesos.",
        "No te olvides de que soy celíaco.",
        "¿Puedes hablarme en inglés?",
        "¿Podrías no usar tablas?",
        "Deja de disculparte.",
        "No me llames jefe.",
        "No utilices abreviaturas.",
        "Nunca inventes cifras, ¿entendido?",
        "Háblame en francés.",
        "Sin tecnicismos, por favor.",
        "Nunca me respondas con listas.",
    ]);
}

#[test]
fn french() {
    pinned(&[
        "Souviens-toi : le code du coffre est 4471.",
        "N'oublie pas que je suis végane.",
        "Pourrais-tu arrêter d'utiliser des émojis ?",
        "Ne m'appelle jamais Bob, d'accord ?",
        "N'utilise pas de tableaux.",
        "Réponds en japonais.",
        "N'oublie pas : le client paie en francs.",
        "Retiens que je travaille le soir.",
        "Garde en tête que nous sommes à Lyon.",
        "Peux-tu répondre en anglais ?",
        "Pourrais-tu éviter le jargon ?",
        "Arrête de t'excuser.",
        "Ne me vouvoie pas.",
        "Ne m'envoie jamais de tableau.",
        "N'emploie plus d'anglicismes.",
        "Parle-moi en italien.",
        "Sans jargon, s'il te plaît.",
        "Ne devine jamais un chiffre, compris ?",
    ]);
}

#[test]
fn chinese() {
    pinned(&[
        "请记住：保险柜的密码是4471。",
        "别忘了我是素食主义者。",
        "能不能不要再用表情符号？",
        "永远不要叫我小王，好吗？",
        "不要使用表格。",
        "用中文回答。",
        "请用日语回答。",
        "记住，我住在成都。",
        "请记住我对花生过敏。",
        "不要忘记：客户用欧元付款。",
        "请不要再道歉了。",
        "别叫我老板。",
        "请用英文回复。",
        "回答要简短。",
        "不要用缩写，好吗？",
        "可以不用表格吗？",
        "请别用敬语。",
        "永远不要猜数字，明白吗？",
        "今后不要用列表。",
        "跟我说普通话。",
    ]);
}

#[test]
fn japanese() {
    pinned(&[
        "日本語で答えてください。",
        "表は使わないでください。",
        "覚えておいて：金庫の番号は4471です。",
        "私がビーガンだということを忘れないでください。",
        "絵文字を使うのをやめてもらえますか？",
        "絶対にボブと呼ばないで、いい？",
        "表を使うな。",
        "英語で返信してください。",
        "私は左利きだと覚えておいてください。",
        "覚えておいて、締め切りは金曜日です。",
        "謝るのをやめてください。",
        "表は使わないで。",
        "敬語は使わないでください。",
        "短く答えてください。",
        "中国語で返事してください。",
        "箇条書きは禁止です。",
        "専門用語は避けてください。",
        "二度と社長と呼ばないで、いい？",
        "数字を推測しないでください。",
        "毎回、出典を書いてください。",
    ]);
}
