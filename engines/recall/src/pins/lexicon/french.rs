//! French, addressed as "tu" or "vous".

use super::{Hint, Table};

/// Phrases, folded as [`super::super::tokens`] folds: without accents, elisions as words of their own.
pub(super) const TABLE: Table = &[
    (
        Hint::Lead,
        "au fait|en fait|finalement|ah|et|aussi|par ailleurs|autre chose|une chose|deux choses|avant que j oublie|important|note|salut|bonjour|ok|bon|\
         d ailleurs|en passant|premierement|deuxiemement|ensuite|enfin|rappel|de plus|en outre",
    ),
    (
        Hint::Polite,
        "s il te plait|s il vous plait|stp|svp|merci de|merci d|merci de bien vouloir|je te prie de|je vous prie de",
    ),
    (
        Hint::Always,
        "toujours|avant chaque|apres chaque|avec chaque|a la fin de chaque|au debut de chaque|chaque fois|a chaque fois|a chaque fois que|chaque fois que|en toute occasion|systematiquement|en tout temps|\
         constamment|invariablement|en permanence",
    ),
    (Hint::Each, "a chaque fois que|chaque fois que|toutes les fois que|des que"),
    (Hint::Never, "jamais|jamais plus|plus jamais|ne * jamais|n _ jamais"),
    (
        Hint::Standing,
        "a partir de maintenant|a partir d aujourd hui|a compter d aujourd hui|a compter de maintenant|desormais|dorenavant|\
         a l avenir|a compter de ce jour|jusqu a nouvel ordre|sans exception|sans exceptions|par defaut|en regle generale|\
         regle generale|par principe|quoi qu il arrive|sauf si je|sauf si je te|sauf indication contraire|sauf mention contraire|\
         sauf demande|pour tout ce que|dans toutes tes reponses|dans toutes vos reponses|dans chaque reponse|\
         pendant tout le projet|pour la suite|une fois pour toutes|prends l habitude de|prenez l habitude de|j insiste|d office",
    ),
    (
        Hint::Want,
        "je veux que|je voudrais que|j aimerais que|je souhaite que|je souhaiterais que|j attends que|j attends de toi que|\
         il est important que|il est essentiel que|c est important que|je tiens a ce que|veille a|veillez a|assure toi|assurez vous|\
         fais en sorte|faites en sorte|pense a|pensez a|souviens toi|souvenez vous|rappelle toi|rappelez vous|garde en tete|\
         gardez en tete|n oublie pas de toujours|il faut|il faudra|je demande que|je te demande de|je vous demande de|\
         j exige que|tiens compte",
    ),
    (
        Hint::Unwanted,
        "je ne veux pas que|je ne veux jamais|je ne veux plus|je ne veux pas de|je ne veux aucun|je ne veux aucune|\
         je n aime pas que|je deteste que|je ne supporte pas que|ca m agace quand tu|ca m enerve quand tu|je t interdis|\
         je vous interdis|je te demande de ne pas|je te demande de ne jamais|je refuse que|promets moi de ne|j interdis",
    ),
    (
        Hint::Order,
        "tu dois|vous devez|tu devrais|vous devriez|tu es cense|il faut|tes reponses doivent|les reponses doivent|on doit|tu peux",
    ),
    (
        Hint::Ban,
        "en aucun cas|sous aucun pretexte|en aucune circonstance|a aucun moment|il est interdit|il est strictement interdit|\
         interdiction de|defense de|il ne faut jamais|il ne faut pas|tu ne dois pas|tu ne dois jamais|vous ne devez pas|\
         vous ne devez jamais|tu n as pas le droit|vous n avez pas le droit|interdit de|pas question de|il est hors de question|\
         on ne doit jamais|tu ne peux pas|abstiens toi|abstenez vous",
    ),
    (Hint::Dont, "ne|n|evite|evitez|pas de|aucun|aucune|plus de|jamais de"),
    (
        Hint::Ask,
        "peux tu|pourrais tu|pouvez vous|pourriez vous|veux tu|voudrais tu|tu peux|tu pourrais|est ce que tu peux",
    ),
    (
        Hint::Rule,
        "une regle|autre regle|une autre regle|nouvelle regle|la regle est|regle|consigne|consigne permanente|notre convention|\
         notre regle|la convention est|voici comment|pour ce projet|pour tout le projet|regle d or|regle de la maison|\
         c est ainsi que",
    ),
    (
        Hint::Announce,
        "regles|consignes|conventions|principes|preferences|directives|lignes directrices|a respecter|a retenir|toujours|jamais|\
         desormais|a partir de maintenant|en permanence|comment je veux|ce que j attends|a garder en tete|dorenavant",
    ),
    (Hint::Only, "uniquement|seulement|exclusivement|rien que"),
    (
        Hint::Prefer,
        "je prefere|je deteste|j ai horreur|je n aime pas|je ne supporte pas|je ne supporte plus|j aime mieux|j aime que|\
         j aime les|mon prefere|ma preferee|mon editeur prefere|j apprends mieux|je travaille mieux|je comprends mieux|\
         je privilegie|ca m agace|je ne suis pas fan|je suis fan|mes preferes|prefere est|preferee est|plutot que",
    ),
    (
        Hint::Choice,
        "la premiere|le premier|la deuxieme|le deuxieme|la seconde|l option|option|ca|cela|celle|celui|cette|ce|cet|l autre|l idee|\
         ce bug|cette erreur",
    ),
    (
        Hint::Me,
        "appelle moi|appelez moi|m appeler|me tutoyer|me vouvoyer|tu peux m appeler|je m appelle|mon nom est|mon prenom est|mon fuseau horaire|mes horaires|\
         ma langue maternelle|j habite|je vis a|je suis allergique|je suis intolerant|je suis intolerante|je suis vegetarien|\
         je suis vegetarienne|je suis vegan|je suis vegane|je ne mange pas|je ne bois pas|je suis daltonien|je suis daltonienne|\
         je suis gaucher|tutoie moi|vouvoie moi|vouvoyez moi|reponds moi en|repondez moi en|parle moi en|ecris moi en|\
         pars du principe que|considere que je connais|je lis tout",
    ),
    (
        Hint::Bound,
        "est interdit|est interdite|sont interdits|sont interdites|est intouchable|est en lecture seule|sont en lecture seule|\
         est du code genere|ne doit pas depasser|ne doit pas etre depasse|ne doivent pas quitter|ne doit pas quitter|\
         ne peut pas quitter|doit rester en|doit rester a|doit rester sur|doit rester sous|est obligatoire|sont obligatoires|n est pas negociable|\
         nous sommes tenus|nous sommes obliges|la loi nous|le budget|notre budget|la limite|sans mon accord|sans ma validation|\
         sans mon autorisation|sans me demander|comme intouchable|comme gele|ne doit jamais|ne doivent jamais|\
         nous n utilisons que|on n utilise que|est proscrit|est bannie|est banni|n est pas autorise|ne sont pas autorises|\
         n a rien a faire",
    ),
    (Hint::Must, "doit|doivent|devra|devront|a besoin|ont besoin|finit|se termine|part|peut|peuvent"),
    (Hint::All, "tous|toutes|tout|toute|chaque|rien|personne|aucun|aucune"),
    (Hint::No, "pas de|pas d|aucun|aucune|jamais de|zero"),
    (
        Hint::Here,
        "dans ce projet|dans cette equipe|dans ce depot|dans notre projet|dans notre equipe|chez nous|dans notre code|dans ce repo|\
         on a convenu|nous avons convenu",
    ),
    (
        Hint::Task,
        "rappelle moi|rappelez moi|n oublie pas de|n oubliez pas de|il faut encore|il reste a|on doit encore|nous devons encore|\
         je dois encore|a faire|reste a faire|il ne faut pas oublier de|n oublions pas de|pense bete|en suspens|mets sur la liste",
    ),
    (
        Hint::Done,
        "c est fait|est fait|est faite|est termine|est terminee|est regle|est reglee|c est regle|deja fait|je l ai fait|fini|\
         tu peux cocher|tu peux rayer|est boucle|est clos",
    ),
    (
        Hint::Revoke,
        "oublie ce que j ai|oubliez ce que j ai|oublie la regle|oublie ma|oublie mon|ignore ce que j ai|ignore la regle|\
         tu n as plus besoin|vous n avez plus besoin|ce n est plus la peine|plus la peine de|ne s applique plus|n est plus valable|\
         n est plus necessaire|arrete de|arretez de|cesse de|j ai change d avis|je retire|annule la regle|tu peux de nouveau|\
         tu peux a nouveau|c etait une blague|tu n es plus oblige|n est plus d actualite",
    ),
    (
        Hint::Recall,
        "comme je l ai dit|comme je t ai dit|comme dit|je t ai dit|je t avais dit|comme convenu|je t ai demande|comme d habitude|\
         tu as oublie|je te rappelle",
    ),
    (
        Hint::Report,
        "dit|disait|a dit|m a dit|ecrit|a ecrit|pense que|pensait|croit|croyait|selon|d apres|affirme|pretend|parait il|\
         on dit|recommande|suggere|la doc dit|veut que|voulait|prefere que le|il parait",
    ),
    (
        Hint::Exempt,
        "tu n es pas oblige|pas besoin de|tu n as pas besoin|ce n est pas necessaire|pas toujours|peu importe|ca n a pas d importance|\
         inutile de|il n est pas necessaire",
    ),
    (
        Hint::Once,
        "cette fois|pour l instant|pour le moment|maintenant|tout de suite|aujourd hui|demain|ce soir|d abord|dans ce cas|\
         cette semaine|encore une fois|pas encore|temporairement|en attendant|pour ce commit|dans ce commit|ce matin",
    ),
    (Hint::If, "si|supposons|imaginons"),
    (Hint::Would, "serait|pourrait|devrait|aurait|ferait|devrions"),
    (
        Hint::Fault,
        "mais|pourtant|ne marche pas|ne fonctionne pas|marche|plante|echoue|bizarre|je crois|je pense|il semble|semble|peut etre|\
         sans doute|en fait|bug|a plante|pourquoi|je me demande",
    ),
    (
        Hint::Subject,
        "il|elle|ils|elles|le|la|les|l|un|une|des|ce|cet|cette|ces|son|sa|ses|leur|notre|nos|mon|ma|mes|quelqu|certains|on|c",
    ),
    (Hint::Speaker, "je|j|nous"),
    (
        Hint::Question,
        "que|qu|quoi|pourquoi|comment|quand|ou|qui|quel|quelle|quels|quelles|est ce|est|sont|doit on|faut il|devrait on|a t|y a|combien",
    ),
    (
        Hint::Verb,
        "affiche|ajoute|ajoutez|appelle|applique|appliquez|arrondis|attends|avertis|base|change|choisis|cite|citez|commence|\
         commencez|commente|compare|confirme|conserve|copie|cree|decris|demande|demandez|documente|donne|donnez|ecris|ecrivez|\
         effectue|emploie|enregistre|envoie|evite|execute|explique|expliquez|fais|faites|ferme|formate|garde|gardez|inclus|incluez|\
         indique|indiquez|joins|lance|lancez|lis|limite|limitez|livre|laisse|maintiens|marque|mentionne|mesure|mets|mettez|montre|\
         montrez|nomme|note|ordonne|parle|parlez|place|precise|prefere|prends|prenez|prepare|prefixe|propose|range|redige|reduis|\
         relis|remplace|reponds|repondez|resume|resumez|respecte|respectez|reste|retire|salue|sauvegarde|separe|signale|signe|\
         signez|sois|soyez|specifie|suis|suivez|supprime|teste|testez|traduis|traduisez|traite|traitez|travaille|trie|utilise|\
         utilisez|valide|verifie|verifiez|vouvoie|tutoie",
    ),
    (
        Hint::Paste,
        "mail de|message de|courriel|le wiki|du readme|le ticket|dans le ticket|le log|les logs|la sortie|le texte|texte suivant|\
         citation|extrait|article|a ecrit|dit|l erreur|du manuel|lettre|description|le fil|paragraphe|ci dessous|voici le|voici la|\
         contrat|compte rendu",
    ),
    (Hint::Past, "etait|avait|ai|avons|a|ont|fut|eut|avez"),
    (
        Hint::Idle,
        "oublie|oubliez|abandonne|abandonnez|perds|perdez|baisse|desespere|panique|importe|empeche|serait|inquiete|probleme|hesite|c|est|souci|idee|doute|crois|sais|t inquiete|vous inquietez|lache",
    ),
    (Hint::Phrase, "la|le meme|la meme|pareil|aussi|est|partant|bien|mieux|dit|plante|echoue|marche"),
    (
        Hint::Manner,
        "tes reponses|vos reponses|reponses courtes|reponses breves|sois bref|sois breve|sois concis|sois direct|sois honnete|emoji|\
         emojis|t excuser|excuses|messages de commit|commentaires du code|demande moi avant|demande moi d abord|en cas de doute",
    ),
    (
        Hint::Work,
        "nouveau|nouveaux|nouvelle|nouvelles|commit|commits|reponse|reponses|rapport|rapports|version|versions|changement|branche|\
         ticket|tickets|message|messages|document|documents|fonction|fonctions|module|modules|classe|classes|fichier|fichiers|test|\
         tests|service|services|table|tables|migration|dependance",
    ),
    (
        Hint::Case,
        "quand tu|quand vous|si quelque chose|si un|si une|en cas de doute|avant de|avant chaque|apres chaque|pour chaque|a chaque|\
         dans chaque",
    ),
    (
        Hint::Quit,
        "arrete de|arretez de|cesse de|cessez de|arrete d|arretez d|cesse d|arreter de|arreter d|arreter les|cesser de|cesser d",
    ),
    (
        Hint::Keep,
        "souviens toi que|souviens toi qu|souvenez vous que|souviens toi :|souvenez vous :|souviens toi de ceci :|\
         souviens toi de ca :|souviens toi bien :|souviens toi bien que|rappelle toi que|rappelle toi qu|rappelez vous que|\
         rappelle toi :|rappelez vous :|n oublie pas que|n oublie pas qu|n oubliez pas que|n oubliez pas qu|n oublie pas :|\
         n oubliez pas :|n oublie jamais que|n oubliez jamais que|n oublie pas ,|garde en tete que|gardez en tete que|\
         garde en tete :|garde bien en tete que|garde a l esprit que|gardez a l esprit que|garde a l esprit :|retiens que|\
         retiens qu|retenez que|retiens :|retenez :|retiens bien :|retiens bien que|retiens ceci :|retiens bien ceci :|\
         a retenir :|sache que|sachez que|note bien que|note bien :|prends note :|prends note que|memorise :|memorise que|\
         memorise ceci :|tiens compte du fait que",
    ),
    (
        Hint::Form,
        "tableaux|puces|listes|listes a puces|titres|markdown|gras|italique|italiques|jargon|voix passive|abreviations|sigles|\
         notes de bas de page|points d exclamation|majuscules|remplissage|anglicismes|compliments|metaphores|emoticones|\
         smileys|parentheses|franglais|argot",
    ),
    (
        Hint::Assent,
        "d accord|compris|entendu|c est clair|ca marche|hein|oui|c est compris|s il te plait|s il vous plait|stp|svp|merci|\
         c est bon|ca te va|tu veux bien",
    ),
    (Hint::Copula, "est|etait|sont|etaient|fut|signifie"),
];

/// What tells that a text follows, or went before.
pub(super) const TEXTS: Table = &[
    (
        Hint::Treat,
        "resume|resumez|resumer|traduis|traduisez|traduire|traduction|corrige|corrigez|corriger|correction|reformule|reformulez|\
         reformuler|paraphrase|paraphraser|reecris|reecrivez|reecrire|raccourcis|raccourcir|abrege|simplifie|simplifiez|simplifier|\
         explique|expliquez|expliquer|analyse|analysez|analyser|ameliore|ameliorez|ameliorer|interprete|classe|transcris|\
         relis|relisez|relire|evalue|evaluer|condense|peaufine",
    ),
    (
        Hint::Handle,
        "verifie|verifiez|verifier|lis|lisez|lire|reponds a|repondez a|repondre a|commente|commentez|regarde|regardez|compare|\
         convertis|transforme|change|complete|continue|aide moi avec|aide moi a comprendre|mets|donne moi|fais|jette un oeil a",
    ),
    (
        Hint::Say,
        "dis a|dis au|dis aux|dis lui|dites a|dites lui|ecris a|ecris au|ecris lui|envoie a|envoie lui|demande a|demande lui|repete|\
         repete apres moi|reponds par|reponds lui|previens _|informe _|dis",
    ),
    (
        Hint::Shown,
        "ceci|cela|ca|ce|cet|cette|ces|le suivant|la suivante|suivant|suivante|suivants|mon texte|mon mail|ma lettre|ma phrase|\
         mon brouillon|mon message|ci dessous|le texte|la phrase|le paragraphe|le message",
    ),
    (Hint::Above, "ci dessus|au dessus|precedent|plus haut|que dois je repondre|que repondre|je reponds quoi"),
    (
        Hint::Like,
        "comme ca|comme ceci|comme suit|ainsi|de cette facon|de cette maniere|de la facon suivante|sous cette forme",
    ),
    (
        Hint::Label,
        "texte|original|texte original|citation|extrait|phrase|paragraphe|mail|courriel|message|lettre|article|transcription|paroles|\
         chanson|poeme|tweet|titre|slogan|devise|proverbe|dicton|blague|avis|commentaire|message d erreur|par exemple|exemple|\
         livre|film|refrain|panneau|objet|resume|traduction|page|document|client|utilisateur",
    ),
    (
        Hint::About,
        "que veut dire|que veulent dire|que signifie|qu est ce que|qu est ce qui|que penses tu|qu en penses|que pensez|c est quoi|\
         comment dit on|comment dire|comment traduire|comment traduirais|comment dirais|qui a dit|qui a ecrit|de qui est|d ou vient|\
         est ce correct|est ce que c est|est ce bien|est ce juste|est ce que cette|est ce que ce|ca veut dire quoi|quelle langue|\
         dans quelle langue|es tu d accord|pourquoi est il|ca sonne|qu est ce qui sonne|lequel sonne|laquelle sonne|que dois je|que repondre|je reponds",
    ),
];
