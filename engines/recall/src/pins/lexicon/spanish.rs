//! Spanish, addressed as "tú" or "usted".

use super::{Hint, Table};

/// Phrases, folded as [`super::super::tokens`] folds: without accents.
pub(super) const TABLE: Table = &[
    (
        Hint::Lead,
        "por cierto|en realidad|mejor dicho|ah|y|ademas|tambien|otra cosa|una cosa|dos cosas|antes de que se me olvide|importante|nota|ojo|oye|hola|bueno|\
         ok|vale|de paso|primero|segundo|luego|entonces|recordatorio|aparte|una cosa mas|eso si|y otra cosa|buenas|ah y",
    ),
    (Hint::Polite, "por favor|te agradeceria que|agradeceria que|si puedes|si no te importa"),
    (
        Hint::Always,
        "siempre|antes de cada|despues de cada|tras cada|con cada|al final de cada|al principio de cada|cada vez|cada vez que|todas las veces|en todo momento|en todos los casos|siempre que|en cada ocasion|\
         sistematicamente|invariablemente|a toda hora",
    ),
    (Hint::Each, "cada vez que|siempre que|todas las veces que"),
    (Hint::Never, "nunca|jamas|nunca mas|nunca jamas"),
    (
        Hint::Standing,
        "a partir de ahora|a partir de hoy|a partir de este momento|de ahora en adelante|de hoy en adelante|desde ahora|desde hoy|\
         en adelante|en lo sucesivo|en el futuro|hasta nuevo aviso|hasta nueva orden|sin excepcion|sin excepciones|por defecto|\
         por norma|como norma|como norma general|como regla|como regla general|por regla general|por sistema|pase lo que pase|\
         bajo cualquier circunstancia|a menos que te|a menos que yo|salvo que te|salvo que yo|mientras no te diga|\
         mientras no diga|para todo lo que|en todas tus respuestas|en cada respuesta|en todo el proyecto|durante todo el|\
         de forma permanente|para siempre|de una vez por todas|acostumbrate a|insisto en que|ten por costumbre",
    ),
    (
        Hint::Want,
        "quiero que|querria que|quisiera que|me gustaria que|necesito que|espero que|te pido que|os pido que|es importante que|\
         es imprescindible que|es necesario que|es fundamental que|me importa que|asegurate de|asegurese de|procura|procure|\
         cuida de|acuerdate de|acuerdate siempre de|recuerda que|recuerda|recuerde|ten en cuenta|tenga en cuenta|ten presente|\
         hay que|tienes que|encargate de|vigila que|preferiria que|te ruego que|exijo que|exigimos que|que no se te olvide|\
         que no se te pase|no olvides|no te olvides de",
    ),
    (
        Hint::Unwanted,
        "no quiero que|no quiero ver|no quiero nada|no quiero ningun|no quiero ninguna|no me gusta que|odio que|detesto que|\
         no soporto que|me molesta que|te pido que no|te ruego que no|no tolero|no acepto|prometeme que no|me pone de los nervios que|\
         no permito|preferiria que no",
    ),
    (
        Hint::Order,
        "debes|tienes que|deberias|has de|debe|tiene que|hay que|puedes|usted debe|tus respuestas deben|las respuestas deben|\
         se debe|se puede",
    ),
    (
        Hint::Ban,
        "bajo ningun concepto|bajo ninguna circunstancia|en ningun caso|en ningun momento|de ninguna manera|de ningun modo|\
         por nada del mundo|esta prohibido|queda prohibido|queda terminantemente prohibido|esta terminantemente prohibido|\
         no esta permitido|no se permite|no debes|no puedes|no tienes permiso|no se debe|no se puede|nunca debes|nunca hay que|\
         nunca se debe|jamas debes|jamas hay que|prohibido|ni se te ocurra|ni de broma|no debe|te prohibo|abstente de",
    ),
    (Hint::Dont, "no|evita|evite|nada de|ni|sin"),
    (Hint::Ask, "puedes|podrias|puede|podria|te importaria|seria posible|querrias"),
    (
        Hint::Rule,
        "una regla|otra regla|una norma|otra norma|nueva regla|nueva norma|la regla es|la norma es|regla|norma|norma de la casa|\
         nuestra norma|nuestra convencion|mi peticion permanente|mi instruccion permanente|regla fija|instruccion permanente|\
         la convencion es|asi trabajamos|asi trabajo|regla de oro",
    ),
    (
        Hint::Announce,
        "reglas|normas|convenciones|pautas|directrices|preferencias|principios|estandares|asi quiero que|como quiero que|siempre|\
         nunca|a partir de ahora|en todo momento|ten en cuenta|que recuerdes|que respetes|para todo lo que|lo que espero|\
         cosas que|en adelante|instrucciones permanentes",
    ),
    (Hint::Only, "solo|solamente|unicamente|exclusivamente"),
    (
        Hint::Prefer,
        "prefiero|odio|detesto|no soporto|no me gustan|no me gusta|me gustan mas|me gusta mas|me gusta que|aborrezco|mi favorito|\
         mi favorita|mi preferido|mi preferida|aprendo mejor|trabajo mejor|entiendo mejor|me molestan|me molesta|no aguanto|\
         me encantan|soy partidario|no soy fan|no soy partidario|favorito es|favorita es|mas vale|prefiero que",
    ),
    (
        Hint::Choice,
        "la primera|el primero|la segunda|el segundo|la opcion|opcion|esto|eso|esta|este|ese|esa|la otra|el otro|esa idea|lo otro|\
         este error|ese error|este bug",
    ),
    (
        Hint::Me,
        "llamame|llameme|llamarme|tutearme|tratarme de|puedes llamarme|me llamo|mi nombre es|mi zona horaria|mi horario|mi lengua materna|mi idioma|vivo en|\
         soy alergico|soy alergica|soy intolerante|tengo alergia|soy vegetariano|soy vegetariana|soy vegano|soy vegana|no como|\
         no bebo|soy daltonico|soy daltonica|soy zurdo|soy zurda|tuteame|tratame de|da por hecho que|da por sentado que|\
         hablame en|respondeme en|escribeme en|leo todo en|asume que se",
    ),
    (
        Hint::Bound,
        "es intocable|son intocables|es de solo lectura|son de solo lectura|es codigo generado|esta prohibido|estan prohibidos|\
         estan prohibidas|esta vetado|esta vetada|no se puede superar|no puede superar|no se debe superar|no puede salir|\
         no pueden salir|debe quedarse en|tiene que quedarse en|debe seguir en|tiene que seguir en|en la version|aqui usamos|solo usamos|solo se usan|\
         solo se usa|solo se puede|solo se pueden|es obligatorio|es obligatoria|no es negociable|estamos obligados|por ley|\
         el presupuesto|nuestro presupuesto|el limite|sin mi visto bueno|sin mi permiso|sin mi aprobacion|sin la aprobacion|\
         sin consultarme|como intocable|como congelado|no tiene cabida|no entra en|no esta permitido|no estan permitidos|\
         nunca puede|nunca pueden|no puede cambiar",
    ),
    (
        Hint::Must,
        "debe|deben|tiene que|tienen que|necesita|necesitan|ha de|han de|lleva|llevan|sale|pasa|va|puede|pueden",
    ),
    (Hint::All, "todos|todas|todo|toda|cada|cualquier|nada|nadie|ningun|ninguna"),
    (Hint::No, "nada de|ningun|ninguna|ni un|ni una|cero"),
    (
        Hint::Here,
        "en este proyecto|en este equipo|en este repositorio|en este repo|en nuestro proyecto|en nuestro equipo|en esta empresa|\
         en esta casa|en nuestro codigo|en este codigo|aqui en el equipo|hemos acordado",
    ),
    (
        Hint::Task,
        "recuerdame|recuerdeme|todavia tenemos que|todavia hay que|aun tenemos que|aun hay que|todavia tengo que|aun tengo que|\
         falta por|queda por|queda pendiente|esta pendiente|pendiente|que no se nos olvide|que no se me olvide|apunta en la lista|\
         tenemos pendiente|no nos olvidemos de|por hacer",
    ),
    (
        Hint::Done,
        "ya esta hecho|ya esta hecha|esta hecho|esta hecha|ya esta|esta listo|ya lo hice|ya lo he hecho|hecho|puedes tachar|tachar|\
         ya esta resuelto|esta terminado|ya termine|ya no hace falta recordarme|queda hecho|esta cerrado",
    ),
    (
        Hint::Revoke,
        "olvida lo que|olvidate de lo que|olvide lo que|olvida la regla|olvida la norma|olvida mi|ignora lo que dije|ignora la regla|\
         ignora la norma|ya no hace falta que|ya no hace falta|ya no es necesario|ya no tienes que|ya no se aplica|ya no vale|\
         deja de|deje de|dejad de|no hace falta que sigas|he cambiado de idea|cambie de idea|retiro lo|anula la regla|\
         anula la norma|ya puedes|ya no quiero que|vuelve a poder|era broma|ya no rige|ya no esta en vigor",
    ),
    (
        Hint::Recall,
        "como te dije|como dije|como ya dije|te dije que|te pedi que|como acordamos|como te pedi|te he dicho|ya te dije|\
         como siempre|recuerda que te|se te ha olvidado|has olvidado",
    ),
    (
        Hint::Report,
        "dice|dijo|dicen|me dijo|comento|comenta|escribio|escribe que|segun|cree|creia|piensa|afirma|sostiene|pone|opina|sugirio|\
         recomienda|recomendo|quiere que|queria|prefiere|la documentacion dice|al parecer|se dice|dijiste|dijeron",
    ),
    (
        Hint::Exempt,
        "no hace falta|no es necesario|no tienes que|no tiene que|no siempre|da igual|no hay que|no necesitas|no importa",
    ),
    (
        Hint::Once,
        "esta vez|ahora|ahora mismo|por ahora|de momento|por el momento|hoy|manana|solo esta vez|primero|en este caso|\
         la semana que viene|esta semana|otra vez|todavia|aun|una vez|en este pr|en este commit|para este|temporalmente|mientras",
    ),
    (Hint::If, "si|supongamos"),
    (Hint::Would, "seria|podria|deberia|tendria|haria|deberiamos"),
    (
        Hint::Fault,
        "pero|falla|fallo|fallando|error raro|se cae|se cayo|justo eso|no funciona|funcionado|raro|creo|parece|quizas|tal vez|\
         aunque|supongo|no se por que|por que|en realidad|en cambio|diria que",
    ),
    (
        Hint::Subject,
        "el|ella|ellos|ellas|la|los|las|un|una|unos|unas|este|esta|estos|estas|ese|esa|eso|esto|su|sus|nuestro|nuestra|mi|mis|ahi|\
         alli|alguien|algunos|lo",
    ),
    (Hint::Speaker, "yo|nosotros|se me|me|nos|se"),
    (
        Hint::Question,
        "que|por que|como|cuando|donde|quien|cual|cuales|es verdad|es|esta|deberiamos|debemos|hay|tiene|hace|son|era|cuanto",
    ),
    (
        Hint::Verb,
        "actualiza|adjunta|ajusta|anade|apunta|aplica|avisa|avisame|ayuda|basate|cambia|cierra|cita|comenta|comprueba|confirma|\
         considera|consulta|contesta|contestame|copia|crea|cuida|da|dame|deja|describe|di|dime|documenta|ejecuta|elige|empieza|\
         ensename|entrega|envia|escribe|escribeme|especifica|evita|explica|explicame|extrae|firma|formatea|guarda|habla|hablame|\
         haz|incluye|indica|inserta|limita|llama|llena|manda|manten|marca|menciona|mira|mide|modifica|muestra|muestrame|nombra|\
         numera|omite|ordena|pide|pideme|pon|ponme|pregunta|preguntame|prepara|presenta|prioriza|procura|protege|prueba|quita|\
         redacta|redondea|reduce|reemplaza|registra|repasa|repite|respeta|responde|respondeme|resume|revisa|saluda|saludame|\
         sangra|sal|se|sepulta|separa|sigue|simplifica|subraya|sube|sugiere|sustituye|termina|tradu|traduce|trata|tratame|usa|\
         utiliza|valida|verifica|vuelve|use|utilice|escriba|responda|conteste|incluya|ponga|haga|diga|mantenga|evite|revise",
    ),
    (
        Hint::Paste,
        "correo de|mensaje de|la wiki|del readme|el ticket|en el ticket|el registro|los registros|la salida|el texto|siguiente texto|\
         cita|extracto|articulo|escribio|dice|dijo|el error|del manual|carta|descripcion|el hilo|parrafo|de abajo|este es el|\
         contrato|transcripcion",
    ),
    (Hint::Past, "fue|ha|han|era|vi|supe|supimos|pude|tuve|hemos|he|habia|hubo|paso|quise|logre"),
    (
        Hint::Idle,
        "quiero|puedes|tienes|sabes|quieres|eres|entiendes|ves|vas|has|estas|crees|haces|es|te|se|me|lo|la|hay|pasa|gracias|preocupes|\
         importa|prisa|funciona|estoy|tengo|puedo|entiendo|veo|creo|olvides|problema|idea|duda|tengas miedo|te rindas",
    ),
    (
        Hint::Phrase,
        "dice|falla|pasa|da|llega|sigue|cae|igual|lo mismo|hay|es|esta|bien|mejor|tarda|sale|ocurre|sera|seran",
    ),
    (
        Hint::Manner,
        "tus respuestas|tus explicaciones|respuestas cortas|respuestas breves|respuestas largas|se breve|se conciso|se directo|\
         se sincero|se critico|emoji|emojis|muletillas|disculpas|te disculpes|pedir perdon|mensajes de commit|comentarios del codigo|\
         preguntame antes|pregunta antes|ante la duda|en caso de duda",
    ),
    (
        Hint::Work,
        "nuevo|nuevos|nueva|nuevas|commit|commits|respuesta|respuestas|informe|informes|entrega|entregas|version|versiones|cambio|\
         cambios|rama|ramas|ticket|tickets|mensaje|mensajes|correo|correos|documento|documentos|funcion|funciones|modulo|modulos|\
         clase|clases|archivo|archivos|prueba|pruebas|endpoint|endpoints|servicio|servicios|tabla|tablas|migracion|dependencia",
    ),
    (
        Hint::Case,
        "cuando escribas|cuando hagas|cuando uses|cuando algo|cuando te|si algo|si un|si una|si tienes dudas|si no estas seguro|\
         antes de|despues de cada|para cada|con cada|en cada|ante cada|ante la duda",
    ),
    (Hint::Quit, "deja de|deje de|dejad de|dejar de|basta de|para de|parar de|dejarte de"),
    (
        Hint::Keep,
        "recuerda que|recuerde que|recuerda :|recuerde :|recuerda esto :|recuerda ,|recuerda bien :|ten en cuenta que|\
         tenga en cuenta que|ten en cuenta :|tenga en cuenta :|ten en cuenta esto :|ten presente que|ten presente :|\
         no olvides que|no olvide que|no olvides :|no olvide :|no olvides esto :|no olvides ,|no te olvides de que|\
         no te olvides que|no te olvides :|no se olvide de que|que no se te olvide que|que no se te olvide :|\
         no se te olvide que|nunca olvides que|nunca olvides :|acuerdate de que|acuerdate que|acuerdate :|toma nota :|\
         toma nota de que|apunta que|apunta esto :|apuntate que|apuntate esto :|anota que|anota esto :|memoriza :|memoriza que|\
         memoriza esto :|guarda esto :",
    ),
    (
        Hint::Form,
        "tablas|vinetas|listas|encabezados|titulos|markdown|negrita|negritas|cursiva|cursivas|jerga|voz pasiva|abreviaturas|\
         siglas|notas al pie|signos de exclamacion|exclamaciones|mayusculas|relleno|anglicismos|tecnicismos|cumplidos|metaforas|\
         emoticonos|parentesis|rodeos",
    ),
    (
        Hint::Assent,
        "vale|de acuerdo|entendido|si|esta bien|esta claro|claro|por favor|ok por favor|si por favor|gracias|queda claro|te parece|puede ser|\
         trato hecho|estamos",
    ),
    (Hint::Copula, "es|son|fue|era|eran|fueron|significa|suena|parece"),
];

/// What tells that a text follows, or went before.
pub(super) const TEXTS: Table = &[
    (
        Hint::Treat,
        "resume|resuma|resumir|resumen|resumeme|traduce|traduzca|traducir|traduceme|traduccion|corrige|corrija|corregir|corrigeme|\
         correccion|parafrasea|parafrasear|reescribe|reescriba|reescribir|reformula|reformular|acorta|acortar|abrevia|abreviar|\
         simplifica|simplificar|explica|explicar|explicame|analiza|analizar|mejora|mejorar|edita|editar|interpreta|interpretar|\
         clasifica|clasificar|transcribe|transcribir|valora|valorar|evalua|evaluar|pule|pulir",
    ),
    (
        Hint::Handle,
        "revisa|revise|revisar|revisame|lee|lea|leer|responde|responda|responder|respondeme|contesta|contestar|comenta|comentar|mira|\
         comprueba|comprobar|compara|convierte|convertir|cambia|completa|continua|ayudame con|ayudame a entender|haz|dame|pon|que opinas de|\
         que te parece|echa un vistazo a|arregla",
    ),
    (
        Hint::Say,
        "dile _|dile a|dile al|dile a la|diles _|diles a|di|escribe a|escribele|escribele a|manda _|mandale|mandale a|enviale|\
         enviale a|preguntale a|pregunta a|repite|repite conmigo|responde con|contesta con|avisa a|avisale a|informa a",
    ),
    (
        Hint::Shown,
        "esto|este|esta|estos|estas|lo siguiente|siguiente|siguientes|mi texto|mi correo|mi carta|mi frase|mi borrador|mi mensaje|\
         a continuacion|el texto|la frase|el parrafo|el correo|el mensaje",
    ),
    (Hint::Above, "de arriba|anterior|texto anterior|lo anterior|arriba|que respondo|que le respondo|que contesto"),
    (
        Hint::Like,
        "asi|como sigue|de esta forma|de esta manera|de este modo|con este formato|en este estilo|de la siguiente forma|de la siguiente manera",
    ),
    (
        Hint::Label,
        "texto|original|texto original|cita|extracto|frase|parrafo|correo|mensaje|carta|articulo|transcripcion|letra|cancion|poema|\
         tuit|titular|lema|eslogan|refran|dicho|chiste|resena|comentario|mensaje de error|por ejemplo|ejemplo|p ej|titulo|libro|\
         pelicula|estribillo|cartel|asunto|resumen|traduccion|pagina|documento|cliente|usuario",
    ),
    (
        Hint::About,
        "que significa|que significan|que quiere decir|que es|que son|que opinas|que piensas|que te parece|que quiso|como se dice|\
         como digo|como traducirias|como se traduce|como dirias|como suena|quien dijo|quien escribio|de quien es|de donde es|\
         esta bien|esta bien dicho|es correcto|es correcta|es esto|suena bien|estas de acuerdo|en que idioma|por que dice|crees que|que suena|que es mejor|cual suena|que respondo|que le|que contesto",
    ),
];
