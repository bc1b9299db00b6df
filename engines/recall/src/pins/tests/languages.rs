//! Sentences that are pins and sentences that are not, by language.

use super::*;

#[test]
fn english_instructions() {
    pinned(&[
        "Always reply in British English.",
        "Please never push without running the hooks first!",
        "From now on, wrap commit bodies at 72 columns.",
        "Going forward I want all timestamps in UTC.",
        "I want you to list the risks every time you propose a plan.",
        "I'd like you to ask before deleting anything, always.",
        "Make sure you always cite the paragraph of the law.",
        "Don't ever touch the generated parser.",
        "Under no circumstances are you to mail our clients.",
        "You must never store card numbers, not even in a test.",
        "You are not allowed to install packages globally.",
        "As a rule, explain first and show code second.",
        "Whenever you change the schema, update the diagram.",
        "Every time you finish a chapter, summarise it in two lines.",
        "Could you please always use the 24-hour clock?",
        "In this repo we never rebase shared branches.",
        "By default, give me the short version.",
        "Until further notice, treat warnings as errors.",
        "House rule: one idea per paragraph.",
        "Keep every function pure, without exception.",
        "Remember to always state the unit.",
        "I don't want you to guess at prices.",
        "Please do not use any emoji.",
        "Avoid the word leverage, always.",
        "If you are unsure about a dosage, always say so.",
        "Only use the official client library.",
        "Never use tabs. Ever.",
        "By the way, from here on call the product Heron.",
        "You should always mention the sample size.",
        "Ask me whenever you are not sure about a licence.",
        "Unless I say otherwise, write for beginners.",
        "Stick to British spelling at all times.",
        "It's important to me that you never make up references.",
    ]);
}

#[test]
fn orders_about_manner_and_habit_are_for_good() {
    pinned(&[
        "keep your answers under 200 words",
        "respond only in german please",
        "be concise",
        "When you write SQL, use lowercase keywords.",
        "If a command needs sudo, ask me first.",
        "Before committing, run cargo fmt.",
        "Use British spelling throughout.",
        "We use pnpm here, not npm.",
        "Commit messages in English please.",
        "Prefer early returns.",
        "Skip the pleasantries.",
        "Remember that I'm colour blind.",
        "I want you to be critical of my ideas.",
        "Let's always use UTC.",
        "Wenn du SQL schreibst, nimm Kleinbuchstaben.",
        "Frag mich, bevor du etwas löschst.",
        "Sei immer ehrlich zu mir.",
        "Responde solo en español.",
        "Antes de borrar algo, pregúntame siempre.",
        "Quand tu écris du SQL, utilise des minuscules.",
    ]);
    assert_eq!(texts(&learned(&["Stop using emojis."])), ["Stop using emojis."]);
    assert_eq!(
        texts(&learned(&["Always use emojis.", "Stop using emojis."])),
        Vec::<&str>::new(),
        "it only takes back"
    );
}

#[test]
fn what_the_work_is_to_do_is_no_rule_for_the_assistant() {
    passed(&[
        "Make it so that the dropdown closes when you click outside.",
        "The header should stay visible when scrolling.",
        "Every row needs a checkbox on the left.",
        "Make sure the endpoint always returns JSON.",
        "Can you make the modal always open in the center?",
        "Add validation: the name must not be empty.",
        "Write a linter rule that forbids console.log in every file.",
        "Explain why we should never use floats for money.",
        "Implement a check so that the user can never delete the last admin.",
        "Call me when the build is done.",
        "My name is in the commit, remove it.",
        "The budget is fine, go on.",
        "There is a TODO in parser.rs, please implement it.",
        "Stop the server and start it again.",
        "Don't touch the tests yet.",
        "Please don't refactor, just fix the bug.",
        "From now on it logs in JSON, the old parser can't read it.",
        "Die Seite soll immer die drei neuesten Beiträge zeigen.",
        "Ich will nicht, dass der Nutzer das sieht.",
        "Quiero que el diálogo se abra siempre en el centro.",
        "No cambies la firma, solo el contenido.",
        "Je veux que la fenêtre s'ouvre toujours au centre.",
    ]);
}

#[test]
fn english_preferences_and_constraints() {
    pinned(&[
        "I prefer tables to prose.",
        "I hate it when you start with a compliment.",
        "I can't stand corporate speak.",
        "I'd rather read one page than ten.",
        "My favourite test runner is nextest.",
        "Call me Ishmael.",
        "My time zone is Asia/Kolkata.",
        "I'm allergic to penicillin, so check every prescription.",
        "I am vegetarian.",
        "The folder vendor/ is off limits.",
        "The schema is read-only for us.",
        "All new services must have a health check.",
        "Every release note needs a link to the ticket.",
        "Nothing is sent to the printer without my approval.",
        "The budget for ads is 400 euros a month.",
        "Customer names must never be logged.",
        "No meetings before ten.",
        "We only support PostgreSQL.",
        "Treat the archive as read-only.",
    ]);
}

#[test]
fn english_sentences_that_are_no_pins() {
    passed(&[
        "Please fix the flaky test in the parser.",
        "Can you rename this function?",
        "Always a pleasure, thanks!",
        "Never mind, I found it.",
        "It always crashes after the second click.",
        "My brother always says that I talk too much.",
        "We never got an answer from them.",
        "I always wondered how that works.",
        "Should we always cache this?",
        "Why does it never finish?",
        "The README says \"always use the wrapper\".",
        "He told me that you must never reboot it on a Friday.",
        "She never uses the staging cluster.",
        "You don't have to run it every time.",
        "If we always retried, would it be slower?",
        "Find out why the job always stops at midnight.",
        "Tell me what never worked.",
        "Don't worry about the docs.",
        "Don't bother with tests this time.",
        "Make sure the build is green, then tag it.",
        "I prefer the second option.",
        "I hate this bug.",
        "I like that idea.",
        "No idea what happened there.",
        "No, that is the old file.",
        "The button should always be disabled here, but it is not.",
        "For now, skip the slow tests.",
        "Use the other fixture for this one.",
        "According to the docs, callers must never block.",
        "Is it true that we must not share keys?",
        "Nobody knows why it must be restarted daily.",
        "What would you do if it never came back?",
        "Remove the line that says never edit.",
        "Thanks, that works.",
        "I always forget the flag for that.",
        "The last deploy took forever.",
        "Let me know whenever you need a hand.",
        "Don't be afraid to ask.",
        "Don't ever give up!",
        "No pressure at all.",
        "Anytime, my friend!",
        "Always here if there is trouble.",
        "Whenever I see that error, I reboot.",
        "They remind me of last summer.",
        "We'll get there and never look back.",
    ]);
}

#[test]
fn english_tasks() {
    let task = |text| assert_eq!(found(text).first().map(|found| found.0), Some(Kind::Task), "{text}");
    task("Remind me to call the landlord.");
    task("TODO: rotate the signing keys.");
    task("We still need to write the migration guide.");
    task("Don't forget to water the test server at the end.");
    task("Can you remind me to pay the invoice?");
    passed(&["What is still to do?", "Did you remind me yesterday?"]);
}

#[test]
fn german() {
    pinned(&[
        "Antworte mir bitte immer auf Deutsch.",
        "Bitte nie die Konfiguration von Hand ändern.",
        "Ab sofort alle Preise brutto angeben.",
        "Ich möchte, dass du jedes Mal die Annahmen nennst.",
        "Mir ist wichtig, dass du nie Namen erfindest.",
        "Auf keinen Fall Daten nach außen geben!",
        "Du darfst niemals den Hauptzweig überschreiben.",
        "Verwende grundsätzlich das generische Femininum.",
        "Könntest du bitte immer zuerst den Plan zeigen?",
        "Vor dem Ausrollen immer die Sicherung prüfen.",
        "In Zukunft bitte weniger Fußnoten.",
        "Ich bevorzuge Beispiele statt Theorie.",
        "Ich hasse es, wenn du abschweifst.",
        "Nenn mich einfach Matze.",
        "Der Ordner etc/ ist tabu.",
        "Alle neuen Tabellen müssen einen Primärschlüssel haben.",
        "Es dürfen nur signierte Pakete verwendet werden.",
        "Keine Anglizismen, bitte.",
        "Wir duzen uns grundsätzlich in der Oberfläche, und zwar ohne Ausnahme.",
    ]);
    passed(&[
        "Kannst du den Test reparieren?",
        "Das hat noch nie funktioniert.",
        "Er sagt immer, dass alles gut wird.",
        "Ich vergesse immer das Passwort.",
        "Warum ist der Server nie erreichbar?",
        "Der Dienst stürzt immer nachts ab.",
        "Im Handbuch steht: „Niemals öffnen“.",
        "Du musst das nicht jedes Mal machen.",
        "Kümmere dich diesmal nicht um die Übersetzung.",
        "Keine Ahnung, woran es liegt.",
        "Darf man den wirklich nie neu starten?",
        "Danke, das war es.",
    ]);
    assert_eq!(found("Erinnere mich daran, den Vertrag zu kündigen.")[0].0, Kind::Task);
}

#[test]
fn spanish() {
    pinned(&[
        "Respóndeme siempre en castellano.",
        "Por favor, nunca borres el historial.",
        "A partir de ahora usa comillas angulares.",
        "Quiero que siempre muestres los pasos.",
        "No quiero que inventes referencias.",
        "Bajo ningún concepto publiques las claves.",
        "¿Podrías avisarme siempre antes de reiniciar?",
        "Como norma, explica primero el problema.",
        "Prefiero los diagramas a los párrafos.",
        "Llámame Chema.",
        "Soy alérgica al gluten.",
        "La carpeta legado es intocable.",
        "Todos los servicios nuevos deben tener alertas.",
        "En este equipo nunca se despliega de noche.",
        "Nada de reuniones los lunes.",
    ]);
    passed(&[
        "¿Puedes arreglar la prueba?",
        "Nunca supe por qué se cayó.",
        "Mi jefe siempre dice lo mismo.",
        "Siempre se me olvida la clave.",
        "¿Por qué nunca termina?",
        "El manual dice «nunca abrir».",
        "No hace falta que lo ejecutes cada vez.",
        "No te preocupes por eso.",
        "Esta vez usa la otra base.",
        "Gracias, funciona.",
    ]);
    assert_eq!(found("Recuérdame renovar el seguro.")[0].0, Kind::Task);
}

#[test]
fn french() {
    pinned(&[
        "Réponds toujours en français.",
        "N'utilise jamais de jargon.",
        "À partir de maintenant, arrondis les montants.",
        "Désormais, tutoie les lecteurs.",
        "Je veux que tu cites toujours tes sources.",
        "En aucun cas tu ne dois modifier la base.",
        "Peux-tu toujours montrer le plan d'abord ?",
        "Merci de toujours vérifier l'orthographe.",
        "Je préfère les réponses courtes.",
        "Appelle-moi Zoé.",
        "Le dossier archives est en lecture seule.",
        "Il ne faut jamais publier les brouillons.",
    ]);
    passed(&[
        "Peux-tu corriger ce test ?",
        "Il plante toujours au démarrage.",
        "Mon chef dit toujours la même chose.",
        "Pourquoi ne finit-il jamais ?",
        "Tu n'es pas obligé de le faire à chaque fois.",
        "Merci, ça marche.",
    ]);
    assert_eq!(found("Rappelle-moi de payer le loyer.")[0].0, Kind::Task);
}

#[test]
fn chinese_and_japanese() {
    pinned(&[
        "请始终用中文回答。",
        "从现在起，金额一律用人民币。",
        "永远不要修改生产数据库。",
        "以后每次提交之前都要先跑测试。",
        "不要使用表情符号。",
        "我更喜欢简短的回答。",
        "叫我老王。",
        "今後は必ず日本語で答えてください。",
        "絶対に本番環境を触らないでください。",
        "コミットメッセージは常に英語で書いてください。",
        "私は短い説明の方が好きです。",
        "タロウと呼んでください。",
    ]);
    passed(&[
        "它总是崩溃。",
        "为什么每次都失败？",
        "他说永远不要重启。",
        "请修复这个错误。",
        "彼はいつも遅刻します。",
        "このテストを直してください。",
        "なぜ必ず失敗するのですか？",
    ]);
    assert_eq!(found("提醒我明天交报告。")[0].0, Kind::Task);
    assert_eq!(quoted("先看日志。请始终用中文回答。谢谢！"), ["请始终用中文回答。"]);
}
