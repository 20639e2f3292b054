"""The small words that hold sentences together, in languages written with Latin letters. Pure.

In running text of these languages every third to second word is one of them, and in the emptiest
stretch of a few dozen words still every tenth; token soup and lists of words hold hardly any.
"""

from __future__ import annotations

_BY_LANGUAGE = {
    "en": """the a an and or but nor so if then than that this these those there here of in on at to for from with
without by as into onto over under about after before between through during against among within per via upon
is are was were be been being am has have had having do does did done can could will would shall should may might
must not no yes i you he she it we they me him her us them my your his its our their who whom whose which what when where
why how all any each every some such more most many much few less least other another same own only just also very too
again once because while until since though although however therefore thus hence even still yet both either neither up down
out off let get got make made it's don't that's isn't i'm you're can't let's there's doesn't you'll we'll i'll they're
one two new like use used using based""",
    "de": """der die das den dem des ein eine einen einem einer eines und oder aber denn sondern wenn dann als dass daß
ob wie was wer wo warum weil damit obwohl während bevor nachdem ich du er sie es wir ihr mich mir dich dir ihn ihm uns
euch ihnen mein dein sein ihre unser ist sind war waren wird werden wurde wurden hat haben hatte hatten kann können muss müssen
soll sollte darf will nicht kein keine auch nur noch schon sehr mehr viel viele alle alles dieser diese dieses jeder jede
in im an am auf aus bei beim mit nach seit von vom vor zu zum zur über unter zwischen durch für gegen ohne um bis so da hier
dort man sich selbst etwa etwas immer wieder also doch einfach werden""",
    "fr": """le la les l un une des du de d et ou mais donc car ni si que qui quoi dont où quand comme comment pourquoi je
tu il elle on nous vous ils elles me te se lui leur leurs mon ton son ma ta sa mes tes ses notre votre nos vos ce cet cette
ces est sont était étaient être été a ont avait avoir eu fait faire peut peuvent pouvoir doit doivent ne pas plus moins très aussi
bien tout tous toute toutes même autre autres chaque plusieurs dans sur sous avec sans pour par en au aux entre vers chez
depuis pendant avant après contre y c'est n'est qu'il qu'elle d'un d'une l'on j'ai""",
    "es": """el la los las un una unos unas de del a al y e o u pero sino porque que quien cual cuando donde como cuanto si yo
tú él ella ello nosotros vosotros ellos ellas me te se le les lo nos os mi mis tu tus su sus nuestro nuestra es son era eran ser
sido fue fueron está están estar ha han había haber hay tiene tienen tener puede pueden poder debe deben no ni sí también muy más
menos mucho mucha muchos muchas poco todo toda todos todas otro otra otros otras mismo cada este esta estos estas ese esa esos
esas en con sin por para sobre entre hasta desde hacia según durante contra ante ya así bien""",
    "it": """il lo la i gli le un uno una di del dello della dei degli delle a al allo alla ai agli alle da dal dalla dai in nel
nella nei nelle su sul sulla con per tra fra e ed o ma se che chi cui quale quando dove come perché io tu lui lei noi voi loro
mi ti si ci vi ne lo mio mia tuo tua suo sua suoi nostro vostro è sono era erano essere stato stata ha hanno aveva avere può
possono deve devono non né anche molto più meno tutto tutti tutta tutte altro altri ogni questo questa questi queste quello
quella così già ancora solo dopo prima senza contro verso durante""",
    "pt": """o a os as um uma uns umas de do da dos das em no na nos nas por pelo pela pelos pelas para com sem sob sobre entre
até desde e ou mas porque que quem qual quando onde como se eu tu ele ela nós vós eles elas você vocês me te lhe lhes meu minha
seu sua seus suas nosso nossa é são era eram ser sido foi foram está estão estar há tem têm ter pode podem deve devem não nem sim
também muito mais menos pouco todo toda todos todas outro outra outros outras mesmo cada este esta estes estas esse essa isso isto
ao à aos às já assim depois antes durante contra""",
    "nl": """de het een en of maar want dus als dan dat die dit deze wie wat waar wanneer hoe waarom omdat terwijl hoewel ik jij je
hij zij ze wij we jullie u mij me hem haar ons hun hen mijn jouw zijn is was waren ben bent wordt worden werd werden heeft
hebben had kan kunnen moet moeten zal zullen zou mag wil niet geen ook nog al heel meer veel alle alles elke ieder ander in op
aan uit bij met naar van voor door over onder tussen tegen zonder om tot te er hier daar men zich zelf zo toch""",
    "sv": """och eller men för att som om när där hur vad vem varför en ett den det de dem jag du han hon vi ni mig dig sig oss er
min din sin hans hennes vår är var vara varit blir blev har hade ha kan kunde ska skulle måste får inte ingen inga också bara
mycket mer många alla allt varje andra samma i på av till från med utan vid under över mellan genom mot efter innan så då här
denna detta dessa""",
    "da": """og eller men for at som om når hvor hvordan hvad hvem hvorfor en et den det de dem jeg du han hun vi mig dig sig os
min din sin hans hendes vores er var være været bliver blev har havde have kan kunne skal skulle må ikke ingen også kun meget
mere mange alle alt hver andre samme i på af til fra med uden ved under over mellem gennem mod efter før så da her denne dette disse""",
    "no": """og eller men for at som om når hvor hvordan hva hvem hvorfor en et ei den det de dem jeg du han hun vi meg deg seg oss
min din sin hans hennes vår er var være vært blir ble har hadde ha kan kunne skal skulle må ikke ingen også bare mye mer mange alle
alt hver andre samme i på av til fra med uten ved under over mellom gjennom mot etter før så da her denne dette disse""",
    "fi": """ja tai mutta että kun jos koska kuin niin myös ei ole on oli ovat olivat olla ollut se ne hän he minä sinä me te tämä
tuo nämä joka jotka mikä mitä missä miten miksi kanssa ilman ennen jälkeen sekä vain hyvin enemmän kaikki voi voivat pitää sen sitä
niiden siitä jonka jossa""",
    "pl": """i a oraz lub albo ale więc bo ponieważ że żeby aby jeśli gdy kiedy gdzie jak co kto który która które ja ty on ona ono my
wy oni one mnie mi ci go jej ich im nas was mój twój swój jego jest są był była było były być może mogą można nie tak też także
tylko już jeszcze bardzo więcej wszystko każdy inny ten ta to te tego tej tym w we na do od z ze za po przed przez pod nad między
dla o u przy się czy""",
    "cs": """a i nebo ale že aby když kde jak co kdo který která které já ty on ona ono my vy oni mi ti ho jí jich nám vám můj tvůj
svůj jeho její je jsou byl byla bylo byli být má mají může mohou musí ne také jen už ještě velmi více vše každý jiný ten ta to
tento tato toto v ve na do od z ze za po před přes pod nad mezi pro o u při se si jako dnes s k""",
    "hr": """i a ili ali da ako kada gdje kako što tko koji koja koje ja ti on ona ono mi vi oni me te ga je ih nam vam moj tvoj svoj
njegov njen su bio bila bilo bili biti može mogu ne također samo već još vrlo više sve svaki drugi ovaj ova ovo taj ta to u na do
od iz za po prije kroz pod nad između o s sa se kao""",
    "ro": """și sau dar că dacă când unde cum ce cine care eu tu el ea noi voi ei ele mă te se îl o ne vă mi ți îi lui lor meu tău său
este sunt era erau fi fost are au avea poate pot trebuie nu da mai foarte mult toate tot fiecare alt acest această aceste un o unei
unui de la în din pe cu fără pentru prin între despre după până sub peste ca""",
    "hu": """a az és vagy de hogy ha mert mint mikor hol hogyan mi ki amely aki ami én te ő mi ti ők ezt azt ez egy nem is csak már
még nagyon több minden más van vannak volt voltak lesz lehet kell meg el fel le be ki után előtt között alatt felett nélkül által
szerint""",
    "tr": """ve veya ama fakat çünkü ki eğer gibi için ile de da bir bu şu o ben sen biz siz onlar ne kim nasıl neden nerede hangi
değil var yok olarak olan olduğu daha çok en her tüm bütün kadar sonra önce ise mi mı mu mü ya""",
    "id": """dan atau tetapi tapi bahwa jika kalau ketika karena seperti yang ini itu saya aku kamu anda dia kami kita mereka apa siapa
bagaimana mengapa adalah ialah ada tidak bukan sudah telah akan sedang dapat bisa harus juga hanya lebih sangat semua setiap lain di
ke dari pada dengan tanpa untuk oleh dalam antara sebelum sesudah setelah sebagai para untuk""",
    "vi": """và hoặc nhưng vì nếu khi là của cho với trong trên dưới từ đến bởi này đó kia tôi bạn anh chị em nó chúng ta họ không có
được đã đang sẽ rất cũng chỉ nhiều các những một để như thì mà ở vào""",
    "sw": """na au lakini kwa ya wa za la cha vya katika ni si kama kwamba ili hii hiyo huu hizi mimi wewe yeye sisi wao kila pia sana
zaidi tu baada kabla kutoka hadi""",
    "tl": """ang ng sa na at o pero kung kapag dahil ay mga si ni kay ito iyon siya ako ikaw kami tayo sila hindi may mayroon para
lang din rin""",
    "ca": """el la els les un una de del dels i o però que qui quan on com si jo ella nosaltres em et es ens us és són era ser ha han
no també molt més amb sense per en al als entre fins des aquest aquesta""",
    "sk": """a je sú bol byť má na v vo do z zo s so pre pri po za od pod nad o u nie ne alebo či ale ak ako že aby keď kde to ten tá tento
táto tieto toto ktorý ktorá ktoré ktorého už iba len aj tiež sa si jeho jej ich bez medzi cez všetky každý""",
    "sl": """in je so bil biti ima ni ne na v za z s k od do pri po pred nad pod med ob iz brez se si da ali če pa ker ko kot kje kako to ta
ti te tega ki kateri katera že le samo tudi lahko več vse vsak jih ga""",
    "et": """ja on ei või kui ka see seda selle ta nad ma sa me te oma mis mida kes kus kas et aga siis ning kuid nagu oli olid olla ole olema
saab saa võib peab mitte veel väga kõik iga ainult üks pole kuni pärast enne ilma koos läbi üle juures jaoks järgi sest""",
    "lv": """un ir nav vai ar no uz par pēc pie līdz bez starp pa kā ka lai ja kad kas ko kur tas tā to tie šis šī šo bet arī tikai jau vēl ļoti
var tiek bija būt es tu viņš viņa mēs jūs viņi sava savu visi katrs""",
    "lt": """ir yra nėra ar arba bet kad kaip kai jei nes su be iš į ant prie po per už nuo iki apie tarp pagal dėl tai tas ta šis ši šio jis ji jie
jos aš tu mes jūs savo kuris kuri kurie turi būti buvo gali tik dar jau labai visi kiekvienas o""",
    "eu": """eta edo baina ez da du dira dute zen ziren den dela bat hau hori hura honek horrek bere nire zure gure behar ere bai baino gisa
dago dagoen izan izango egin egiten beste oso bezala arte gabe baten batean dituzte zuen""",
    "is": """og eða en að sem er eru var voru vera hefur hafa ekki í á til frá með um við af fyrir eftir yfir undir þegar ef hann hún það þeir
þær ég þú við hans hennar þetta þessi allt alla mjög líka bara svo þá hvað hvar""",
    "sq": """dhe ose por në me nga për të e i një së si që është janë ishte nuk do kur ku se ky kjo këto ai ajo ata unë ti ne ju tij saj shumë
edhe vetëm më mbi nën pas para pa çdo gjithë mund duhet kam ka kanë""",
    "ga": """agus nó ach an na ar ag le do de i go is ní níl tá bhí bheidh atá nach seo sin sé sí siad mé tú muid a gur má mar ó faoi chun roimh
gan gach""",
    "cy": """a ac neu ond y yr yn i o ar at am gan gyda wrth dan dros drwy mae yw oedd bod wedi bydd nid ni dim fel os pan sydd sy hwn hon
hyn fe hi nhw chi ei eu fy dy er hefyd iawn""",
    "af": """die 'n en of maar want dat as wanneer in op aan van vir met by na uit oor onder tussen deur is was het sal kan moet nie geen ook
baie meer ek jy hy sy ons julle hulle my jou hom haar hierdie daardie wat wie waar hoe te om""",
    "eo": """la kaj aŭ sed ĉar ke se kiam kie kiel kio kiu estas estis estos esti ne de al en sur sub per por kun sen el ĝis pri antaŭ post inter mi vi
li ŝi ĝi ni ili mia via lia ŝia nia ilia tiu tio ĉi tre ankaŭ nur pli ĉiu ĉiuj oni si""",
    "gl": """o a os as un unha de do da dos das en no na nos nas por para con sen e ou mais pero que se non si cando onde como é son era foi
ser está están ten teñen este esta isto ese esa seu súa moi tamén só ao á""",
    "ms": """dan atau tetapi bahawa jika kerana seperti yang ini itu saya awak dia kami kita mereka apa adalah ialah ada tidak bukan telah akan
sedang dapat boleh mesti juga hanya lebih sangat semua di ke dari pada dengan tanpa untuk oleh dalam antara sebagai bagi""",
    "haw": "ka ke i o nā ua he ma me aia",
    "mi": "e te ko ki he ngā me nga mai hoki i",
    "ha": "da na ne ce ta ya ba shi ita su mu ku amma ko kuma",
    "yo": "ni ti si ati tabi fun ninu pe bi o awọn jẹ",
    "zu": "ukuthi futhi noma ku kwa uma",
    "so": "iyo ama waa oo ka ku la ayaa laakiin",
    "mg": "ny sy dia fa tsy no ho amin ao izany",
    "ht": "ak nan yon pou ki se li yo gen pa men",
    "la": """et in est non ad ut cum sed qui quae quod ex per ab de si nec aut atque esse sunt enim autem dolor sit amet""",
}

FUNCTION_WORDS = frozenset(word for words in _BY_LANGUAGE.values() for word in words.split())
"""All of them together, lower case."""

OF_LANGUAGE = {
    code: frozenset(words.split()) for code, words in _BY_LANGUAGE.items() if len(words) > 300
}
"""By language, under its ISO 639-1 code, where enough are known to tell the language."""
