//! German. Verbs stand in the forms of the informal imperative; the polite form is the infinitive with "Sie".

use super::{Hint, Table};

/// Phrases, folded as [`super::super::tokens`] folds: without umlauts.
pub(super) const TABLE: Table = &[
    (
        Hint::Lead,
        "ubrigens|eigentlich|doch lieber|ach ja|ach|und|also|noch etwas|noch was|ausserdem|wichtig|hinweis|bevor ich es vergesse|nebenbei|\
         ach so|dann|erstens|zweitens|drittens|ubrigens noch|hallo|hey|ok|okay|nochmal|noch einmal|zur erinnerung|guten morgen|\
         wie gesagt|kurz noch|eins noch|und noch etwas|im ubrigen|weiterhin|ferner",
    ),
    (Hint::Polite, "bitte|seien sie so gut|sei so gut"),
    (
        Hint::Always,
        "immer|vor jedem|vor jeder|nach jedem|nach jeder|bei jedem|bei jeder|mit jedem|mit jeder|am ende jeder|am ende jedes|\
         am anfang jeder|stets|jedes mal|jedesmal|jederzeit|durchgehend|durchweg|ausnahmslos|konsequent|grundsatzlich|generell|prinzipiell|\
         in jedem fall|auf jeden fall|immer wenn|jeweils|allzeit",
    ),
    (Hint::Each, "immer wenn|jedes mal wenn|immer , wenn|jedes mal , wenn|jedesmal wenn|wann immer|sobald"),
    (Hint::Never, "nie|niemals|nie wieder|nie mehr|zu keinem zeitpunkt|zu keiner zeit|nicht mehr"),
    (
        Hint::Standing,
        "ab jetzt|was auch passiert|was auch geschieht|komme was wolle|ab sofort|ab heute|ab nun|von nun an|von jetzt an|von heute an|von jetzt ab|in zukunft|kunftig|zukunftig|\
         fortan|bis auf weiteres|ohne ausnahme|ohne ausnahmen|und zwar immer|und zwar jedes mal|fur die zukunft|standardmassig|\
         dauerhaft|ein fur alle mal|solange ich nichts anderes|bis ich etwas anderes|sofern ich nichts anderes|\
         wenn ich nichts anderes|sofern nicht anders|ausser ich bitte|ausser ich sage|es sei denn ich|egal was|fur alles was|\
         fur alle aufgaben|fur die ganze|fur den rest|wahrend des ganzen|im ganzen projekt|in allen antworten|in jeder antwort|\
         bei jeder antwort|bei allem was|von vornherein|in aller regel|als grundregel|aus prinzip|gewohn dir an|\
         gewohne dir an|ich bestehe darauf|das gilt immer|auch nicht ausnahmsweise|nur auf ausdruckliche|auf dauer",
    ),
    (
        Hint::Want,
        "ich mochte dass|ich will dass|ich mochte dass du|ich erwarte dass|ich wunsche mir dass|ich hatte gern dass|\
         ich hatte gerne dass|mir ist wichtig dass|mir ist es wichtig dass|es ist wichtig dass|es ist mir wichtig dass|\
         wichtig ist dass|ich mochte , dass|ich will , dass|ich erwarte , dass|ich wunsche mir , dass|ich hatte gern , dass|\
         ich hatte gerne , dass|mir ist wichtig , dass|mir ist es wichtig , dass|es ist wichtig , dass|es ist mir wichtig , dass|\
         wichtig ist , dass|ich erwarte * , dass|ich mochte * , dass|ich will * , dass|wir wollen , dass|wir mochten , dass|\
         mochte ich , dass|will ich , dass|ich bitte dich|ich bitte darum|sorg * dafur|sorge * dafur|sorgen sie * dafur|\
         achte * darauf|achten sie * darauf|stell * sicher|stelle * sicher|stellen sie * sicher|denk * daran|denke * daran|\
         denken sie * daran|merk dir|merke dir|merken sie sich|behalt * im kopf|beachte|beachten sie|mir liegt daran|\
         ich lege wert darauf|halt dich an|halte dich an|halten sie sich an|ich brauche immer|mochte ich immer|will ich immer",
    ),
    (
        Hint::Unwanted,
        "ich mochte nicht , dass|ich will nicht , dass|ich mochte nie , dass|ich will nie , dass|ich mochte niemals , dass|\
         ich will niemals , dass|ich mag es nicht , wenn du|ich mag es * nicht , wenn|ich hasse es , wenn du|\
         ich hasse es , wenn man|ich kann es nicht leiden , wenn|ich kann es nicht ausstehen , wenn|es stort mich , wenn du|\
         mich stort es , wenn du|ich mochte keine|ich will keine|ich mochte keinen|ich will keinen|ich dulde|\
         versprich mir , dass du nicht|versprich mir , dass du nie|vermeide es|ich verbiete dir|ich will nichts|ich mochte nichts|\
         bitte keine|bitte keinen|bitte kein|bitte nicht mehr",
    ),
    (
        Hint::Order,
        "du sollst|du solltest|du musst|du hast|sie sollen|sie sollten|sie mussen|sollst du|solltest du|musst du|du darfst|\
         darfst du|sie durfen|man soll|man muss|man darf|soll man|muss man|darf man|deine antworten sollen|antworten sollen|\
         antworten mussen",
    ),
    (
        Hint::Ban,
        "auf keinen fall|unter keinen umstanden|keinesfalls|keineswegs|in keinem fall|du darfst nicht|du darfst nie|\
         du darfst niemals|du darfst auf keinen fall|du sollst nicht|du sollst nie|du sollst niemals|sie durfen nicht|\
         sie durfen nie|darfst du nie|darfst du nicht|es ist verboten|es ist tabu|es ist untersagt|es ist nicht erlaubt|\
         es ist dir nicht erlaubt|strikt verboten|finger weg|lass die finger|hute dich|unterlass|unterlasse|verboten ist",
    ),
    (Hint::Dont, "keine|kein|keinen|vermeide|vermeiden sie|verzichte auf|verzichten sie auf|nicht"),
    (Hint::Ask, "kannst du|konntest du|wurdest du|konnen sie|konnten sie|wurden sie|darf ich dich bitten|magst du"),
    (
        Hint::Rule,
        "eine regel|noch eine regel|neue regel|die regel|regel|regel fur|grundregel|hausregel|feste regel|eine bitte fur|\
         noch eine bitte fur|bei uns gilt|hier gilt|es gilt|fur dieses projekt gilt|fur das projekt gilt|in diesem projekt gilt|\
         im projekt gilt|fur uns gilt|fur mich gilt|unsere konvention|konvention|vorgabe|unsere vorgabe|so arbeiten wir|\
         so arbeite ich|immer gilt|generell gilt|grundsatzlich gilt|dabei gilt",
    ),
    (
        Hint::Announce,
        "regeln|spielregeln|grundregeln|hausregeln|konventionen|vorgaben|richtlinien|leitlinien|vorlieben|grundsatze|prinzipien|\
         an folgendes|folgendes beachten|zu beachten|beachten|daran halten|so mochte ich|so arbeite|so arbeiten wir|immer|\
         durchgehend|ab jetzt|ab sofort|in zukunft|gilt|was mir wichtig ist|wunsche an dich|erwartungen|dauerhaft",
    ),
    (Hint::Only, "nur noch|ausschliesslich|nur"),
    (
        Hint::Prefer,
        "ich bevorzuge|ich hasse|ich mag keine|ich mag keinen|ich mag kein|ich mag lieber|ich mag es * wenn|ich hatte lieber|\
         ich lese lieber|ich ziehe|ich kann * nicht leiden|ich kann * nicht ausstehen|ich verabscheue|lieber|mir ist lieber|\
         mir sind|am liebsten|mein bevorzugter|meine bevorzugte|mein bevorzugtes|mein liebster|meine liebste|mein liebstes|\
         mein lieblings|ich lerne besser|ich lerne am besten|ich arbeite lieber|ich arbeite besser|mich nerven|mich storen|\
         mir gefallen|mir gefallt es , wenn|ich bin kein freund|ich bin kein fan|ich bin ein fan|ich mag",
    ),
    (
        Hint::Choice,
        "den ersten|die erste|das erste|den zweiten|die zweite|das zweite|die zweite variante|variante|option|das|dies|diese|\
         diesen|dieses|es|die idee|den vorschlag|deinen|deine|wie du|fehler|bug",
    ),
    (
        Hint::Me,
        "nenn mich|nenne mich|nennen sie mich|du kannst mich|sprich mich|sprechen sie mich|ich heisse|mein name ist|\
         meine zeitzone ist|meine arbeitszeiten sind|meine muttersprache ist|ich wohne in|ich lebe in|ich bin allergisch|\
         ich habe eine allergie|ich vertrage|ich bin vegetarier|ich bin vegetarierin|ich bin veganer|ich bin veganerin|\
         ich esse kein|ich esse keine|ich esse keinen|mich * nennen|mich * ansprechen|mich * duzen|mich * siezen|ich trinke kein|ich trinke keinen|ich bin farbenblind|ich bin rotgrunblind|\
         ich bin linkshander|ich lese alles|ich lese das meiste|setz voraus , dass ich|setze voraus , dass ich|\
         geh davon aus , dass ich|gehe davon aus , dass ich|duz mich|sieze mich|duze mich|siez mich",
    ),
    (
        Hint::Bound,
        "ist tabu|sind tabu|ist schreibgeschutzt|sind schreibgeschutzt|ist generiert|sind generiert|ist verboten|sind verboten|\
         ist untersagt|sind untersagt|ist nicht erlaubt|sind nicht erlaubt|nicht uberschritten werden|nicht uberschreiten|\
         nicht verlassen|muss auf version|bleibt auf version|muss bei version|muss so bleiben|es durfen nur|durfen nur|\
         darf nur|durfen nie|darf nie|durfen niemals|darf niemals|ist pflicht|sind pflicht|ist zwingend|ist nicht verhandelbar|\
         wir sind verpflichtet|wir sind gesetzlich|gesetzlich verpflichtet|das budget fur|unser budget|das budget|das limit fur|\
         ist eingefroren|als eingefroren|als tabu|als schreibgeschutzt|nur mit meiner|ohne meine freigabe|ohne meine zustimmung|\
         ohne rucksprache|nicht ohne|hat * nichts zu suchen|haben * nichts zu suchen|kommt * nicht infrage|kommt * nicht in frage|\
         kommt nicht ins|wir benutzen hier|wir verwenden hier|wir nutzen hier|wir verwenden nur|wir benutzen nur|wir nutzen nur|wir unterstutzen nur|gehort nach|gehoren nach",
    ),
    (Hint::Must, "muss|mussen|braucht|brauchen|hat|soll|sollen|bekommt|kriegt|endet|gehort|gehoren|geht|darf|durfen"),
    (Hint::All, "alle|alle neuen|jede|jeder|jedes|jeden|alles|nichts|niemand|samtliche|keiner"),
    (Hint::No, "keine|kein|keinen|niemals|nie"),
    (
        Hint::Here,
        "in diesem projekt|in diesem team|in diesem repo|in unserem projekt|in unserem team|bei uns|hier im projekt|hier im team|\
         in dieser firma|in unserer firma|in diesem repository|in dieser codebasis|wir haben vereinbart|wir haben uns darauf",
    ),
    (
        Hint::Task,
        "erinnere mich|erinner mich|erinnern sie mich|nicht vergessen|vergiss nicht|vergesst nicht|vergessen sie nicht|\
         wir mussen noch|ich muss noch|es fehlt noch|noch offen|noch zu tun|noch zu erledigen|offen ist noch|steht noch aus|\
         auf die liste|lass mich nicht vergessen|wir durfen nicht vergessen|denk spater daran|spater noch|muss noch",
    ),
    (
        Hint::Done,
        "ist erledigt|sind erledigt|ist fertig|sind fertig|ist gemacht|hat sich erledigt|schon erledigt|bereits erledigt|erledigt|\
         abhaken|abgehakt|ist passiert|ist durch|ist abgeschlossen|habe ich gemacht|habe ich schon|hab ich gemacht|hab ich schon|\
         streichen",
    ),
    (
        Hint::Revoke,
        "vergiss was ich|vergiss , was ich|vergiss die regel|vergiss meine|vergessen sie , was ich|vergessen sie die regel|\
         ignoriere die regel|ignoriere was ich|ignoriere , was ich|ignoriere meine|gilt nicht mehr|gelten nicht mehr|\
         brauchst du nicht mehr|brauchst * nicht mehr|musst * nicht mehr|musst du nicht mehr|hor auf|hore auf|horen sie auf|\
         hor bitte auf|ich nehme * zuruck|die regel * streichen|streich die regel|streiche die regel|ist hinfallig|\
         ist nicht mehr notig|ich habe es mir anders uberlegt|das war nur ein scherz|nicht mehr notig|du darfst wieder|\
         du kannst wieder|darfst du wieder|kannst du wieder|lass das mit|schluss mit",
    ),
    (
        Hint::Recall,
        "wie gesagt|wie ich gesagt habe|wie ich schon sagte|ich habe dir gesagt|ich sagte|ich hatte gesagt|wie besprochen|\
         wie vereinbart|ich hatte dich gebeten|ich habe dich gebeten|wie immer|du hast vergessen|denk an|denke an|nochmals",
    ),
    (
        Hint::Report,
        "sagt|sagte|gesagt|meint|meinte|behauptet|behauptete|schreibt|schrieb|findet|fand|erzahlt|erzahlte|laut|denkt|dachte|\
         glaubt|glaubte|will|wollte|hat geschrieben|hat gesagt|steht|heisst es|empfiehlt|empfahl|im ticket|angeblich|man sagt|\
         es heisst|mag|bevorzugt",
    ),
    (
        Hint::Exempt,
        "du musst nicht|du musst * nicht|du brauchst nicht|du brauchst * nicht|nicht notig|nicht notwendig|ist nicht immer|nicht immer|ist egal|muss nicht|\
         mussen nicht|ist es egal|brauchst nicht",
    ),
    (
        Hint::Once,
        "diesmal|dieses mal|heute|jetzt|gerade|momentan|im moment|vorerst|zunachst|erst|erst mal|erstmal|fur jetzt|einmal|\
         in diesem fall|bei diesem|fur dieses skript|kurz|noch einmal|morgen|nachste woche|diese woche|vorlaufig|in diesem pr|\
         in diesem commit|ausnahmsweise",
    ),
    (Hint::If, "falls|wenn wir|angenommen|was wenn"),
    (Hint::Would, "wurde|ware|wurden|konnte|hatte|waren"),
    (
        Hint::Fault,
        "aber|geht schief|schiefgeht genau|bricht|fehler|kaputt|funktioniert|abgesturzt|ausgefallen|leider|komisch|eigentlich|\
         vermutlich|wahrscheinlich|ich glaube|ich denke|ich tippe|vielleicht|warum|statt dessen|musste|sollte eigentlich|obwohl|\
         anscheinend|scheint|seit|keine ahnung",
    ),
    (
        Hint::Subject,
        "er|sie|es|der|die|das|ein|eine|dieser|diese|dieses|jemand|man|unser|unsere|mein|meine|dein|deine|sein|seine|ihr|ihre|\
         manche|einige|dort|da",
    ),
    (Hint::Speaker, "ich|wir"),
    (
        Hint::Question,
        "was|warum|wieso|weshalb|wie|wann|wo|wer|welche|welcher|welches|ist|sind|war|waren|hat|haben|soll|sollen|sollten|muss|\
         mussen|darf|durfen|kann|konnen|gibt|wird|werden|stimmt|musste",
    ),
    (
        Hint::Verb,
        "sei|seid|bleib|schreib|schreibe|schreiben|antworte|antworten|nutz|nutze|nutzen|verwend|verwende|verwenden|benutz|benutze|benutzen|nimm|\
         nehmen|zeig|zeige|zeigen|frag|frage|fragen|gib|geben|mach|mache|machen|halt|halte|halten|denk|denke|denken|sorg|sorge|\
         sorgen|acht|achte|achten|vermeide|vermeiden|lass|lasse|lassen|hang|hange|hangen|begruss|begrusse|begrussen|formatier|\
         formatiere|formatieren|erklar|erklare|erklaren|fug|fuge|fugen|setz|setze|setzen|stell|stelle|stellen|pruf|prufe|prufen|\
         test|teste|testen|nenn|nenne|nennen|fang|fange|fangen|beginn|beginne|beginnen|rund|runde|runden|sag|sage|sagen|merk|merke|\
         lies|lesen|ruf|rufe|rufen|bleib|bleibe|bleiben|behandle|behandeln|bau|baue|bauen|leg|lege|legen|ubersetz|ubersetze|\
         ubersetzen|fass|fasse|fassen|zitier|zitiere|zitieren|sicher|sichere|sichern|sortier|sortiere|sortieren|liefer|liefere|\
         liefern|sprich|sprechen|duz|duze|duzen|siez|sieze|siezen|wiederhol|wiederhole|wiederholen|entschuldige|rechne|rechnen|\
         plan|plane|planen|such|suche|suchen|speicher|speichere|speichern|losch|losche|loschen|starte|starten|committe|pushe|\
         unterschreib|unterschreibe|markier|markiere|markieren|dokumentier|dokumentiere|dokumentieren|kommentier|kommentiere|\
         trenn|trenne|trennen|ordne|ordnen|wahl|wahle|wahlen|warte|warten|melde|melden|schick|schicke|schicken|bring|bringe|\
         folge|folgen|arbeite|arbeiten|geh|gehe|gehen|verlinke|verlinken|begrunde|begrunden|kurze|kurzen|informier|informiere|andere|andern|veroffentliche|installiere|installieren|erstelle|erstellen|entferne|entfernen|bearbeite|bearbeiten|erfinde|erfinden|kopiere|kopieren|offne|offnen|schliesse|rate|raten|uberschreibe|aktualisiere",
    ),
    (
        Hint::Finite,
        "soll|sollen|sollte|sollten|muss|mussen|darf|durfen|werden|konnen|konnten|mussten|ich|wir|er|hat|ist|war|wird|wurde|haben|sind|waren|kann|konnte|sagt|geht|lauft|macht|bin|habe|hatte|will|wollte|weiss|\
         fehlt|klappt|passt|gab|gibt|kam|kommt|ging|lief|man|das|stimmt|finde|glaube|denke|vergesse|mag",
    ),
    (
        Hint::Paste,
        "mail von|nachricht von|im wiki|aus der readme|im ticket|das log|logs|log|die ausgabe|der text|folgender text|\
         der folgende text|zitat|auszug|artikel|schrieb|schreibt|sagte|sagt|steht|fehlermeldung|aus dem handbuch|brief|beschreibung|\
         der thread|abschnitt|absatz|hier der|hier die|hier ist|unten|vertrag|protokoll",
    ),
    (Hint::Past, "hat|hatte|war|waren|wurde|haben|habe|ging|kam|sah|gab|lief|fand"),
    (
        Hint::Idle,
        "ahnung|fehler|sorge|idee|zeit|lust|eile|so|mehr|problem|probleme|angst|panik|frage|fragen|wunder|unterschied",
    ),
    (Hint::Phrase, "wieder|so|noch|gut|gerne|gern|schon|willkommen|dasselbe|das gleiche|im leben"),
    (
        Hint::Manner,
        "deine antworten|deine erklarungen|kurze antworten|lange antworten|antworte kurz|antworte knapp|fass dich kurz|fasse dich kurz|\
         sei ehrlich|sei direkt|sei kritisch|sei knapp|emoji|emojis|floskeln|smalltalk|entschuldige dich|zu entschuldigen|\
         commit nachrichten|codekommentare|kommentare im code|frag mich bevor|frag mich , bevor|frag mich zuerst|frag zuerst|\
         frag vorher|frag immer nach|im zweifel",
    ),
    (
        Hint::Work,
        "neue|neuen|neuer|neues|commit|commits|antwort|antworten|bericht|berichte|release|releases|anderung|anderungen|branch|branches|\
         ticket|tickets|nachricht|nachrichten|mail|mails|dokument|dokumente|funktion|funktionen|modul|module|klasse|klassen|datei|\
         dateien|test|tests|endpunkt|endpunkte|dienst|dienste|tabelle|tabellen|migration|migrationen|abhangigkeit|abhangigkeiten",
    ),
    (
        Hint::Case,
        "wenn du|wenn etwas|wenn ein|wenn eine|wenn ich|falls etwas|falls du|im zweifel|bevor du|bei jedem|bei jeder|vor jedem|vor jeder|\
         nach jedem|nach jeder|fur jeden|fur jede|fur jedes|fur alle",
    ),
    (
        Hint::Quit,
        "hor auf|hore auf|horen sie auf|hor bitte auf|hore bitte auf|lass das mit|schluss mit|aufhoren|sein lassen|bleiben lassen|\
         weglassen|lass die|lass bitte die|unterlassen",
    ),
    (
        Hint::Keep,
        "merk dir * dass|merke dir * dass|merk dir * :|merke dir * :|merken sie sich * dass|merken sie sich * :|merken :|\
         zum merken :|denk * daran , dass|denke * daran , dass|denken sie * daran , dass|denk * dran , dass|denk * daran :|\
         denke * daran :|denk * dran :|vergiss * nicht , dass|vergiss * nicht dass|vergiss * nicht :|vergiss * nie , dass|\
         vergiss * niemals , dass|vergessen sie * nicht , dass|vergessen sie * nicht :|vergesst * nicht , dass|nicht vergessen :|\
         nicht vergessen , dass|behalt * im kopf , dass|behalte * im kopf , dass|behalt * im hinterkopf|behalte * im hinterkopf|\
         notier dir * dass|notiere dir * dass|notier dir * :|notiere dir * :|fur spater :|speicher dir * :|speichere dir * :|\
         merk dir das :|merk dir eins :|merk dir mal , dass",
    ),
    (
        Hint::Form,
        "tabellen|aufzahlungen|aufzahlungspunkte|listen|uberschriften|markdown|fettdruck|kursiv|fachjargon|jargon|\
         passiv|abkurzungen|fremdworter|fussnoten|ausrufezeichen|gedankenstriche|semikolons|grossbuchstaben|fullworter|smileys|\
         anglizismen|komplimente|metaphern|schachtelsatze|klammern|umgangssprache|gendersternchen",
    ),
    (
        Hint::Assent,
        "ja|klar|verstanden|alles klar|gut|in ordnung|abgemacht|bitte|einverstanden|ist das klar|danke|machst du|ja bitte|ok bitte|\
         bitte ja|geht das|okay bitte",
    ),
    (Hint::Copula, "ist|sind|war|waren|heisst|klingt|bleibt|lautet|bedeutet"),
];

/// What tells that a text follows, or went before.
pub(super) const TEXTS: Table = &[
    (
        Hint::Treat,
        "fass * zusammen|fasse * zusammen|fassen sie * zusammen|zusammenfassen|zusammenfassung|ubersetz|ubersetze|ubersetzen|\
         ubersetzen sie|ubersetzung|korrigier|korrigiere|korrigieren|korrektur|korrekturlesen|lies * korrektur|korrektur lesen|\
         umschreiben|schreib * um|schreibe * um|formulier * um|formuliere * um|umformulieren|kurz|kurze|kurzen|vereinfach|\
         vereinfache|vereinfachen|erklar|erklare|erklaren|erlautere|erlautern|analysier|analysiere|analysieren|verbesser|\
         verbessere|verbessern|uberarbeite|uberarbeiten|redigiere|redigieren|klassifiziere|interpretiere|deute|transkribiere|\
         lektoriere|bewerte|bewerten|gib * wieder|paraphrasiere|paraphrasieren",
    ),
    (
        Hint::Handle,
        "pruf|prufe|prufen|lies|lesen|beantworte|beantworten|antworte auf|antworten auf|reagiere auf|kommentiere|schau|schau dir|\
         sieh dir|uberpruf|uberprufe|vergleiche|mach|mache|machen|verwandle|andere|andern|vervollstandige|beende|ordne|\
         hilf mir bei|hilf mir mit|hilf mir|was haltst du von|gib mir",
    ),
    (
        Hint::Say,
        "sag _|sage _|sag dem _|sag der _|sag den _|sag meinem _|sag meiner _|schreib an|schreibe an|schreib _|schreibe _|schreib dem _|\
         schreib der _|schick _|frag _|frag den _|frag die _|wiederhole|sprich mir nach|richte _|richte * aus|teile _|teil _|\
         antworte mit|informiere _|warne _",
    ),
    (
        Hint::Shown,
        "das|dies|diesen|dieses|diese|diesem|folgendes|folgenden|folgende|folgender|folgendem|mein text|meinen text|meine mail|\
         meinen brief|meinen satz|meinen entwurf|untenstehenden|unten",
    ),
    (
        Hint::Above,
        "oben|obigen|obige|obiges|obenstehenden|vorstehenden|obigem|was soll ich antworten|wie soll ich antworten|was antworte ich",
    ),
    (Hint::Like, "so|wie folgt|folgendermassen|auf diese weise|in dieser form|in diesem stil|nach diesem muster"),
    (
        Hint::Label,
        "text|originaltext|zitat|auszug|absatz|satz|mail|e mail|nachricht|brief|artikel|protokoll|songtext|lied|gedicht|\
         schlagzeile|slogan|motto|sprichwort|spruch|witz|ruckmeldung|rezension|fehlermeldung|zum beispiel|beispiel|z b|titel|\
         buch|film|strophe|refrain|schild|betreff|zusammenfassung|ubersetzung|seite|webseite|dokument|kunde|nutzer|der spruch",
    ),
    (
        Hint::About,
        "was bedeutet|was bedeuten|was heisst|was heissen|was meint|was ist|was sind|was haltst|was denkst|was soll|wie sagt man|\
         wie sage ich|wie wurdest|wie klingt|wie findest|wie ubersetzt|wie lautet|wer sagte|wer hat|von wem|woher|ist das|ist dies|\
         ist der|sind das|stimmt das|stimmt es|stimmst du|welche sprache|welcher|welches|warum steht|meinst du|glaubst du|\
         klingt das|passt das|findest du|was klingt|was ist besser|was antworte|wie soll",
    ),
];
