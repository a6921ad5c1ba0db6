"""The second edition's frames: those of the first, 55 more, and two of them joined.

For the blanks and the rules of the three languages see `_locale_frames`.
"""

import string

from t2t_lite.problems import _locale_frames
from t2t_lite.problems._locale_frames import Frame, french_spaces

_TEXTS = (
    # ---- health
    (
        "Take {few:# tablet|# tablets} a day with a glass of water.",
        "Nehmen Sie {few:# Tablette|# Tabletten} am Tag mit einem Glas Wasser ein.",
        "Prenez {few:# comprimé|# comprimés} par jour avec un verre d’eau.",
    ),
    (
        "The doctor can see you on {weekday} at {time}.",
        "Die Ärztin hat am {weekday} um {time} Uhr Zeit für Sie.",
        "La médecin peut vous recevoir {weekday} à {time}.",
    ),
    (
        "The patient has lost {weight:long} since {month}.",
        "Der Patient hat seit {month} {weight:long} abgenommen.",
        "Le patient a perdu {weight:long} depuis {month}.",
    ),
    (
        "The vaccination is valid for {period}.",
        "Die Impfung gilt {period}.",
        "Le vaccin est valable {period}.",
    ),
    (
        "{name} has been ill since {weekday} and stays at home.",
        "{name} ist seit {weekday} krank und bleibt zu Hause.",
        "{name} est malade depuis {weekday} et reste à la maison.",
    ),
    (
        "The pharmacy in {city} is open until {time}.",
        "Die Apotheke in {city} ist bis {time} Uhr geöffnet.",
        "La pharmacie de {city} est ouverte jusqu’à {time}.",
    ),
    # ---- restaurant and kitchen
    (
        "We would like a table for {few:# person|# people} on {weekday} at {time}.",
        "Wir hätten gern am {weekday} um {time} Uhr einen Tisch für {few:# Person|# Personen}.",
        "Nous voudrions une table pour {few:# personne|# personnes} {weekday} à {time}.",
    ),
    (
        "The menu of the day costs {price} with a drink.",
        "Das Tagesmenü kostet {price} mit einem Getränk.",
        "Le menu du jour coûte {price} avec une boisson.",
    ),
    (
        "The kitchen closes at {time}.",
        "Die Küche schließt um {time} Uhr.",
        "La cuisine ferme à {time}.",
    ),
    (
        "Add {weight:long} of flour and {few:# egg|# eggs}.",
        "Geben Sie {weight:long} Mehl und {few:# Ei|# Eier} hinzu.",
        "Ajoutez {weight:long} de farine et {few:# œuf|# œufs}.",
    ),
    (
        "The soup has to cook for {wait}.",
        "Die Suppe muss {wait} kochen.",
        "La soupe doit cuire pendant {wait}.",
    ),
    # ---- bank
    (
        "The interest rate of the loan is {percent}.",
        "Der Zinssatz des Kredits beträgt {percent}.",
        "Le taux d’intérêt du prêt est de {percent}.",
    ),
    (
        "You have withdrawn {price} in {city} on {date:long}.",
        "Sie haben am {date:long} in {city} {price} abgehoben.",
        "Vous avez retiré {price} à {city} le {date:long}.",
    ),
    (
        "The bank charges {price} for each transfer {country:to}.",
        "Die Bank berechnet {price} für jede Überweisung {country:to}.",
        "La banque facture {price} pour chaque virement {country:to}.",
    ),
    (
        "Your account balance was {price} on {date:medium}.",
        "Ihr Kontostand betrug am {date:medium} {price}.",
        "Le solde de votre compte était de {price} le {date:medium}.",
    ),
    (
        "{name} pays {price:name} of rent every month.",
        "{name} zahlt jeden Monat {price:name} Miete.",
        "{name} paie {price:name} de loyer chaque mois.",
    ),
    # ---- school and culture
    (
        "The course has {few:# lesson|# lessons} and starts on {date:MMMMd}.",
        "Der Kurs hat {few:# Lektion|# Lektionen} und beginnt am {date:MMMMd}.",
        "Le cours comporte {few:# leçon|# leçons} et commence le {date:MMMMd}.",
    ),
    (
        "In {city}, {percent} of the pupils speak {language} at home.",
        "In {city} sprechen {percent} der Schüler zu Hause {language}.",
        "À {city}, {percent} des élèves parlent {language} à la maison.",
    ),
    (
        "The exam takes {wait} and has {count:# question|# questions}.",
        "Die Prüfung dauert {wait} und hat {count:# Frage|# Fragen}.",
        "L’examen dure {wait} et comporte {count:# question|# questions}.",
    ),
    (
        "The library lends {count:# book|# books} a day.",
        "Die Bibliothek verleiht {count:# Buch|# Bücher} am Tag.",
        "La bibliothèque prête {count:# livre|# livres} par jour.",
    ),
    (
        "The concert on {date:MMMMd} is sold out.",
        "Das Konzert am {date:MMMMd} ist ausverkauft.",
        "Le concert du {date:MMMMd} est complet.",
    ),
    (
        "The museum shows {count:# painting|# paintings} until {date:long}.",
        "Das Museum zeigt bis zum {date:long} {count:# Gemälde|# Gemälde}.",
        "Le musée présente {count:# tableau|# tableaux} jusqu’au {date:long}.",
    ),
    (
        "The film lasts {wait} and is in {language} with subtitles.",
        "Der Film dauert {wait} und läuft auf {language} mit Untertiteln.",
        "Le film dure {wait} et est en {language} avec des sous-titres.",
    ),
    # ---- sports
    (
        "Our team won {few:# game|# games} in {month}.",
        "Unsere Mannschaft hat im {month} {few:# Spiel|# Spiele} gewonnen.",
        "Notre équipe a gagné {few:# match|# matchs} en {month}.",
    ),
    (
        "The marathon in {city} takes place on {date:long}.",
        "Der Marathon in {city} findet am {date:long} statt.",
        "Le marathon de {city} aura lieu le {date:long}.",
    ),
    (
        "{count:# spectator was|# spectators were} in the stadium.",
        "Im Stadion {count:war # Zuschauer|waren # Zuschauer}.",
        "{count:# spectateur était|# spectateurs étaient} dans le stade.",
    ),
    (
        "{name} swims {walk:long} every {weekday}.",
        "{name} schwimmt jeden {weekday} {walk:long}.",
        "{name} nage {walk:long} chaque {weekday}.",
    ),
    # ---- news and work
    (
        "The company employs {count:# person|# people} {country:in}.",
        "Das Unternehmen beschäftigt {country:in} {count:# Person|# Personen}.",
        "L’entreprise emploie {count:# personne|# personnes} {country:in}.",
    ),
    (
        "The population of {city} has grown by {percent} since {date:yMMMM}.",
        "Die Bevölkerung von {city} ist seit {date:yMMMM} um {percent} gewachsen.",
        "La population de {city} a augmenté de {percent} depuis {date:yMMMM}.",
    ),
    (
        "We are looking for {few:# employee|# employees} for our office in {city}.",
        "Wir suchen {few:# Mitarbeiter|# Mitarbeiter} für unser Büro in {city}.",
        "Nous cherchons {few:# employé|# employés} pour notre bureau de {city}.",
    ),
    (
        "The president will travel {country:to} on {weekday}.",
        "Der Präsident reist am {weekday} {country:to}.",
        "Le président se rendra {country:to} {weekday}.",
    ),
    (
        "The new factory {country:in} cost {revenue}.",
        "Die neue Fabrik {country:in} hat {revenue} gekostet.",
        "La nouvelle usine {country:in} a coûté {revenue}.",
    ),
    (
        "The strike lasted {period}.",
        "Der Streik dauerte {period}.",
        "La grève a duré {period}.",
    ),
    (
        "Only {percent} of the voters took part in the election {country:in}.",
        "Nur {percent} der Wähler haben an der Wahl {country:in} teilgenommen.",
        "Seuls {percent} des électeurs ont participé aux élections {country:in}.",
    ),
    (
        "{names} founded the company {period:ago}.",
        "{names} haben das Unternehmen {period:ago} gegründet.",
        "{names} ont fondé l’entreprise {period:ago}.",
    ),
    # ---- on the road
    (
        "The drive from {city} takes {wait}.",
        "Die Fahrt von {city} dauert {wait}.",
        "Le trajet depuis {city} dure {wait}.",
    ),
    (
        "The car uses {volume:long} for {distance:long}.",
        "Das Auto verbraucht {volume:long} für {distance:long}.",
        "La voiture consomme {volume:long} pour {distance:long}.",
    ),
    (
        "No trains are running between {cities} today.",
        "Zwischen {cities} fahren heute keine Züge.",
        "Aucun train ne circule aujourd’hui entre {cities}.",
    ),
    (
        "You may drive at most {speed:short} here.",
        "Sie dürfen hier höchstens {speed:short} fahren.",
        "Vous pouvez rouler ici à {speed:short} au maximum.",
    ),
    (
        "Your luggage may weigh at most {weight:long}.",
        "Ihr Gepäck darf höchstens {weight:long} wiegen.",
        "Vos bagages peuvent peser {weight:long} au maximum.",
    ),
    (
        "How far is it to {city}?",
        "Wie weit ist es nach {city}?",
        "À quelle distance se trouve {city} ?",
    ),
    # ---- at home
    (
        "The garden measures {area:long} and the house has {few:# window|# windows}.",
        "Der Garten misst {area:long} und das Haus hat {few:# Fenster|# Fenster}.",
        "Le jardin mesure {area:long} et la maison compte {few:# fenêtre|# fenêtres}.",
    ),
    (
        "The electricity costs {price} for {energy:short}.",
        "Der Strom kostet {price} für {energy:short}.",
        "L’électricité coûte {price} pour {energy:short}.",
    ),
    (
        "We moved to {city} {period:ago}.",
        "Wir sind {period:ago} nach {city} gezogen.",
        "Nous avons déménagé à {city} {period:ago}.",
    ),
    (
        "Last night it was {temperature:long} in {city}.",
        "Letzte Nacht waren es in {city} {temperature:long}.",
        "La nuit dernière, il faisait {temperature:long} à {city}.",
    ),
    (
        "It will rain until {weekday}.",
        "Es wird bis {weekday} regnen.",
        "Il pleuvra jusqu’à {weekday}.",
    ),
    (
        "The battery is charged to {percent}.",
        "Der Akku ist zu {percent} geladen.",
        "La batterie est chargée à {percent}.",
    ),
    # ---- letters and questions
    (
        "The call to {name} lasted {wait} and cost {price}.",
        "Das Gespräch mit {name} dauerte {wait} und kostete {price}.",
        "L’appel à {name} a duré {wait} et a coûté {price}.",
    ),
    (
        "Thank you, {name}, for your letter of {date:long}.",
        "Vielen Dank, {name}, für Ihren Brief vom {date:long}.",
        "Merci, {name}, pour votre lettre du {date:long}.",
    ),
    (
        "I have been waiting for {name} for {wait}.",
        "Ich warte seit {wait} auf {name}.",
        "J’attends {name} depuis {wait}.",
    ),
    (
        "I will be back in the office on {weekday}.",
        "Ich bin am {weekday} wieder im Büro.",
        "Je serai de retour au bureau {weekday}.",
    ),
    (
        "We cannot accept orders under {price}.",
        "Wir können Bestellungen unter {price} nicht annehmen.",
        "Nous ne pouvons pas accepter les commandes de moins de {price}.",
    ),
    (
        "{name} would like to visit {cities} next year.",
        "{name} möchte nächstes Jahr {cities} besuchen.",
        "{name} aimerait visiter {cities} l’année prochaine.",
    ),
    (
        "When does the shop in {city} open on {weekday}?",
        "Wann öffnet das Geschäft in {city} am {weekday}?",
        "À quelle heure ouvre le magasin de {city} {weekday} ?",
    ),
    (
        "How much does the room cost for {few:# night|# nights}?",
        "Wie viel kostet das Zimmer für {few:# Nacht|# Nächte}?",
        "Combien coûte la chambre pour {few:# nuit|# nuits} ?",
    ),
)

FRAMES = (
    *_locale_frames.FRAMES,
    *(Frame(en, de, french_spaces(fr)) for en, de, fr in _TEXTS),
)

# Words that begin a sentence and become lower case inside one. German "Sie" and "Ihr" do not.
_OPENERS = {
    "en": "A Add In It Last No Only Our Please Take The Tomorrow Until We You Your",
    "de": "Bis Bitte Das Der Die Ein Es Geben Ich Im In Letzte Morgen Nehmen Nur Unsere Wir "
    "Zwischen",
    "fr": "Ajoutez Aucun Demain En Il Jusqu’au J’attends Je La Le Les L’appartement L’appel "
    "L’électricité L’entreprise L’examen L’hôtel Notre Nous Prenez Seuls Une Veuillez Vos Votre "
    "Vous À",
}
_LOWERED = {language: frozenset(words.split()) for language, words in _OPENERS.items()}

# Conjunctions that leave the order of words as it is, in German, too.
CONJUNCTIONS = (
    Frame(", and ", " und ", " et "),
    Frame(", but ", ", aber ", ", mais "),
    Frame(", because ", ", denn ", ", car "),
)


def is_clause(frame: Frame) -> bool:
    """Whether a conjunction may join the sentence to another: one statement, without a colon."""
    first = frame.en.split()[0]
    opens = first in _LOWERED["en"] or first == "I" or first.startswith("{name")
    words = "".join(literal for literal, *_ in string.Formatter().parse(frame.en))
    return opens and words.endswith(".") and not set(":;?(") & set(words)


CLAUSES = tuple(frame for frame in FRAMES if is_clause(frame))


def continued(text: str, language: str) -> str:
    """Returns a sentence as it stands after a conjunction."""
    first = text.split()[0].rstrip(",")
    return text[0].lower() + text[1:] if first in _LOWERED[language] else text
