"""The sentence frames of the embedded data set: English, German and French, with blanks to fill.

`{kind:style}` is a blank of a kind in `_locale_slots.SLOTS`, shown in one of its styles. German
frames need the nominative, the accusative, or forms that equal them. The French frames have plain
spaces before high punctuation; `french_spaces` turns them into no-break spaces.
"""

import re
import string
from typing import NamedTuple


class Frame(NamedTuple):
    """One sentence in three languages, with the same blanks."""

    en: str
    de: str
    fr: str

    def kinds(self) -> list[str]:
        """Returns the kinds of its blanks, each once, in the order of the English text."""
        fields = string.Formatter().parse(self.en)
        return list(dict.fromkeys(kind for _, kind, _, _ in fields if kind))


def french_spaces(text: str) -> str:
    """Puts U+00A0 before colons and inside quotation marks, U+202F before ";", "!" and "?"."""
    return re.sub(" (?=[;!?])", "\u202f", re.sub("(?<=«) | (?=[:»])", "\u00a0", text))


_TEXTS = (
    # ---- software
    (
        "{count:# file was|# files were} moved to the trash {wait:ago}.",
        "{count:# Datei wurde|# Dateien wurden} {wait:ago} in den Papierkorb verschoben.",
        "{count:# fichier a été placé|# fichiers ont été placés} dans la corbeille {wait:ago}.",
    ),
    (
        "You have received {count:# new message|# new messages} since {weekday}.",
        "Sie haben seit {weekday} {count:# neue Nachricht|# neue Nachrichten} erhalten.",
        "Vous avez reçu {count:# nouveau message|# nouveaux messages} depuis {weekday}.",
    ),
    (
        "The download of {size:short} will be complete {wait:in}.",
        "Der Download von {size:short} ist {wait:in} abgeschlossen.",
        "Le téléchargement de {size:short} sera terminé {wait:in}.",
    ),
    (
        "The file was last modified on {date:full} at {time}.",
        "Die Datei wurde zuletzt am {date:full} um {time} Uhr geändert.",
        "Le fichier a été modifié pour la dernière fois le {date:full} à {time}.",
    ),
    (
        "The app is now available in the following languages: {languages}.",
        "Die App ist jetzt in den folgenden Sprachen verfügbar: {languages}.",
        "L’application est désormais disponible dans les langues suivantes : {languages}.",
    ),
    (
        "Please choose your language: {languages:or}.",
        "Bitte wählen Sie Ihre Sprache: {languages:or}.",
        "Veuillez choisir votre langue : {languages:or}.",
    ),
    (
        "Your password will expire {period:in}, on {date:long}.",
        "Ihr Passwort läuft {period:in} ab, am {date:long}.",
        "Votre mot de passe expirera {period:in}, le {date:long}.",
    ),
    (
        "Version {version} was released {period:ago} and supports {few:# language|# languages}.",
        "Version {version} wurde {period:ago} veröffentlicht und unterstützt "
        "{few:# Sprache|# Sprachen}.",
        "La version {version} a été publiée {period:ago} et prend en charge "
        "{few:# langue|# langues}.",
    ),
    (
        "Storage used: {percent} of {size:short}.",
        "Belegter Speicher: {percent} von {size:short}.",
        "Espace utilisé : {percent} de {size:short}.",
    ),
    (
        "The backup of {moment:medium} contains {count:# file|# files} ({size:short}).",
        "Die Sicherung vom {moment:medium} enthält {count:# Datei|# Dateien} ({size:short}).",
        "La sauvegarde du {moment:medium} contient {count:# fichier|# fichiers} ({size:short}).",
    ),
    (
        "The value {number} is too large; please enter at most {few:# digit|# digits}.",
        "Der Wert {number} ist zu groß; bitte geben Sie höchstens {few:# Ziffer|# Ziffern} ein.",
        "La valeur {number} est trop grande ; veuillez saisir au maximum "
        "{few:# chiffre|# chiffres}.",
    ),
    (
        "The result is {scientific} with an error of {percent}.",
        "Das Ergebnis ist {scientific} mit einem Fehler von {percent}.",
        "Le résultat est {scientific} avec une erreur de {percent}.",
    ),
    (
        "Session opened by {name} on {moment:short}.",
        "Sitzung von {name} geöffnet am {moment:short}.",
        "Session ouverte par {name} le {moment:short}.",
    ),
    (
        "{names} edited this document {wait:ago}.",
        "{names} haben dieses Dokument {wait:ago} bearbeitet.",
        "{names} ont modifié ce document {wait:ago}.",
    ),
    (
        "Next update: {date:full}, {time}.",
        "Nächstes Update: {date:full}, {time} Uhr.",
        "Prochaine mise à jour : {date:full}, {time}.",
    ),
    (
        "Your search for “{city}” returned {count:# result|# results}.",
        "Ihre Suche nach „{city}“ ergab {count:# Ergebnis|# Ergebnisse}.",
        "Votre recherche « {city} » a donné {count:# résultat|# résultats}.",
    ),
    (
        "Do you really want to delete {count:# photo|# photos} ({size:short})?",
        "Möchten Sie wirklich {count:# Foto|# Fotos} ({size:short}) löschen?",
        "Voulez-vous vraiment supprimer {count:# photo|# photos} ({size:short}) ?",
    ),
    (
        "The video has had {millions:short} views since {date:yMMMM}.",
        "Das Video hatte seit {date:yMMMM} {millions:short} Aufrufe.",
        "La vidéo a eu {millions:short} de vues depuis {date:yMMMM}.",
    ),
    (
        "Subtitles: {languages}. Running time: {wait}.",
        "Untertitel: {languages}. Laufzeit: {wait}.",
        "Sous-titres : {languages}. Durée : {wait}.",
    ),
    # ---- invoices and shops
    (
        "The invoice of {date:long} for {price} is due {period:in}.",
        "Die Rechnung vom {date:long} über {price} ist {period:in} fällig.",
        "La facture du {date:long} d’un montant de {price} est à régler {period:in}.",
    ),
    (
        "Your order {order} of {date:medium} has been shipped {country:to}.",
        "Ihre Bestellung {order} vom {date:medium} wurde {country:to} versandt.",
        "Votre commande {order} du {date:medium} a été expédiée {country:to}.",
    ),
    (
        "Please transfer {price} to our account by {date:long}.",
        "Bitte überweisen Sie {price} bis zum {date:long} auf unser Konto.",
        "Veuillez virer {price} sur notre compte au plus tard le {date:long}.",
    ),
    (
        "The price has risen by {percent} to {price}.",
        "Der Preis ist um {percent} auf {price} gestiegen.",
        "Le prix a augmenté de {percent} pour atteindre {price}.",
    ),
    (
        "Until {date:MMMMd}, you save {percent} on orders over {price}.",
        "Bis zum {date:MMMMd} sparen Sie {percent} bei Bestellungen über {price}.",
        "Jusqu’au {date:MMMMd}, vous économisez {percent} sur les commandes de plus de {price}.",
    ),
    (
        "The total for {count:# item|# items} is {price}.",
        "Der Gesamtpreis für {count:# Artikel|# Artikel} beträgt {price}.",
        "Le total pour {count:# article|# articles} est de {price}.",
    ),
    (
        "The monthly fee is {price:name}.",
        "Die monatliche Gebühr beträgt {price:name}.",
        "Les frais mensuels s’élèvent à {price:name}.",
    ),
    (
        "The ticket costs {price:name} including {percent} VAT.",
        "Das Ticket kostet {price:name} inklusive {percent} Mehrwertsteuer.",
        "Le billet coûte {price:name}, TVA de {percent} comprise.",
    ),
    (
        "The refund of {price} for order {order} was issued {period:ago}.",
        "Die Erstattung von {price} für Bestellung {order} wurde {period:ago} veranlasst.",
        "Le remboursement de {price} pour la commande {order} a été effectué {period:ago}.",
    ),
    (
        "We ship to the following countries: {countries}.",
        "Wir liefern in die folgenden Länder: {countries}.",
        "Nous livrons dans les pays suivants : {countries}.",
    ),
    (
        "Delivery days: {weekdays}, {hours}.",
        "Liefertage: {weekdays}, {hours}.",
        "Jours de livraison : {weekdays}, {hours}.",
    ),
    (
        "In {month}, sales rose by {percent} to {revenue}.",
        "Im {month} stieg der Umsatz um {percent} auf {revenue}.",
        "En {month}, le chiffre d’affaires a augmenté de {percent} pour atteindre {revenue}.",
    ),
    (
        "Report for {name}: {date:yQQQQ}, profit of {revenue}.",
        "Bericht für {name}: {date:yQQQQ}, Gewinn von {revenue}.",
        "Rapport pour {name} : {date:yQQQQ}, bénéfice de {revenue}.",
    ),
    (
        "Period: {days}. Amount due: {price}.",
        "Zeitraum: {days}. Fälliger Betrag: {price}.",
        "Période : {days}. Montant dû : {price}.",
    ),
    (
        "The parcel weighs {weight:long} and is {length:long} long.",
        "Das Paket wiegt {weight:long} und ist {length:long} lang.",
        "Le colis pèse {weight:long} et mesure {length:long} de long.",
    ),
    # ---- travel
    (
        "The train to {city} departs at {time} from platform {few:#|#}.",
        "Der Zug nach {city} fährt um {time} Uhr von Gleis {few:#|#} ab.",
        "Le train pour {city} part à {time} de la voie {few:#|#}.",
    ),
    (
        "The train stops in {cities}.",
        "Der Zug hält in {cities}.",
        "Le train dessert {cities}.",
    ),
    (
        "The {route} flight is delayed by {wait}.",
        "Der Flug {route} hat {wait} Verspätung.",
        "Le vol {route} a un retard de {wait}.",
    ),
    (
        "Your flight to {city} on {date:yMMMEd} costs {price}.",
        "Ihr Flug nach {city} am {date:yMMMEd} kostet {price}.",
        "Votre vol pour {city} le {date:yMMMEd} coûte {price}.",
    ),
    (
        "The hotel is {walk:short} from the train station.",
        "Das Hotel ist {walk:short} vom Bahnhof entfernt.",
        "L’hôtel se trouve à {walk:short} de la gare.",
    ),
    (
        "A double room in {city} costs {price} per night, breakfast included.",
        "Ein Doppelzimmer in {city} kostet {price} pro Nacht, Frühstück inbegriffen.",
        "Une chambre double à {city} coûte {price} par nuit, petit-déjeuner compris.",
    ),
    (
        "It is now {time} in {city}.",
        "In {city} ist es jetzt {time} Uhr.",
        "Il est maintenant {time} à {city}.",
    ),
    (
        "Are you traveling {country:to} in {month}?",
        "Reisen Sie im {month} {country:to}?",
        "Partez-vous {country:to} en {month} ?",
    ),
    (
        "Country: {country}. Language: {language}. Page views: {millions:long}.",
        "Land: {country}. Sprache: {language}. Seitenaufrufe: {millions:long}.",
        "Pays : {country}. Langue : {language}. Pages vues : {millions:long}.",
    ),
    (
        "Opening hours on {weekday}: {hours}.",
        "Öffnungszeiten am {weekday}: {hours}.",
        "Horaires d’ouverture le {weekday} : {hours}.",
    ),
    (
        "The guided tour in {city} starts on {date:MMMMd} at {time} and costs {price}.",
        "Die Führung in {city} beginnt am {date:MMMMd} um {time} Uhr und kostet {price}.",
        "La visite guidée à {city} commence le {date:MMMMd} à {time} et coûte {price}.",
    ),
    (
        "The average speed {country:in} is {speed:long}.",
        "Die Durchschnittsgeschwindigkeit {country:in} beträgt {speed:long}.",
        "La vitesse moyenne {country:in} est de {speed:long}.",
    ),
    # ---- weather, home and statistics
    (
        "Tomorrow we expect {temperature:short} and wind of {speed:short} in {city}.",
        "Morgen erwarten wir in {city} {temperature:short} und Wind mit {speed:short}.",
        "Demain, nous prévoyons {temperature:short} et un vent de {speed:short} à {city}.",
    ),
    (
        "The temperature in {city} will drop to {temperature:long} on {weekday}.",
        "Die Temperatur in {city} sinkt am {weekday} auf {temperature:long}.",
        "La température à {city} descendra {weekday} à {temperature:long}.",
    ),
    (
        "The air pressure is {pressure:short} and the humidity is {percent}.",
        "Der Luftdruck beträgt {pressure:short} und die Luftfeuchtigkeit {percent}.",
        "La pression atmosphérique est de {pressure:short} et l’humidité de {percent}.",
    ),
    (
        "In {month}, {rain:long} of rain fell in {city}.",
        "Im {month} fielen in {city} {rain:long} Regen.",
        "En {month}, il est tombé {rain:long} de pluie à {city}.",
    ),
    (
        "The apartment has {few:# room|# rooms} and measures {area:long}.",
        "Die Wohnung hat {few:# Zimmer|# Zimmer} und ist {area:long} groß.",
        "L’appartement compte {few:# pièce|# pièces} et mesure {area:long}.",
    ),
    (
        "The tank holds {volume:long}, enough for {distance:long}.",
        "Der Tank fasst {volume:long}, genug für {distance:long}.",
        "Le réservoir contient {volume:long}, de quoi parcourir {distance:long}.",
    ),
    (
        "In {month}, we used {energy:short}, {percent} less than last year.",
        "Im {month} haben wir {energy:short} verbraucht, {percent} weniger als im Vorjahr.",
        "En {month}, nous avons consommé {energy:short}, "
        "soit {percent} de moins que l’année dernière.",
    ),
    (
        "The trail is {walk:long} long and was opened on {date:long}.",
        "Der Wanderweg ist {walk:long} lang und wurde am {date:long} eröffnet.",
        "Le sentier mesure {walk:long} de long et a été ouvert le {date:long}.",
    ),
    (
        "{name} lives {country:in} and speaks {language}.",
        "{name} lebt {country:in} und spricht {language}.",
        "{name} vit {country:in} et parle {language}.",
    ),
    (
        "{percent} of the respondents {country:in} speak {language}.",
        "{percent} der Befragten {country:in} sprechen {language}.",
        "{percent} des personnes interrogées {country:in} parlent {language}.",
    ),
    (
        "{name} walked {walk:long} in {wait}.",
        "{name} ist {walk:long} in {wait} gegangen.",
        "{name} a parcouru {walk:long} à pied en {wait}.",
    ),
    # ---- calendar and e-mail
    (
        "The meeting with {name} takes place on {date:yMMMEd} at {time}.",
        "Die Besprechung mit {name} findet am {date:yMMMEd} um {time} Uhr statt.",
        "La réunion avec {name} aura lieu le {date:yMMMEd} à {time}.",
    ),
    (
        "{names} will attend the meeting on {weekday}.",
        "{names} nehmen am {weekday} an der Besprechung teil.",
        "{names} participeront à la réunion de {weekday}.",
    ),
    (
        "Hello {name}, your appointment is on {date:full} at {time}.",
        "Hallo {name}, Ihr Termin ist am {date:full} um {time} Uhr.",
        "Bonjour {name}, votre rendez-vous est le {date:full} à {time}.",
    ),
    (
        "The office is closed ({days}); please contact {name}.",
        "Das Büro ist geschlossen ({days}); bitte wenden Sie sich an {name}.",
        "Le bureau est fermé ({days}) ; veuillez contacter {name}.",
    ),
    (
        "The contract runs for {period} and ends on {date:long}.",
        "Der Vertrag läuft {period} und endet am {date:long}.",
        "Le contrat dure {period} et se termine le {date:long}.",
    ),
    (
        "Please reply to {name} by {weekday} at {time}.",
        "Bitte antworten Sie {name} bis {weekday} um {time} Uhr.",
        "Veuillez répondre à {name} avant {weekday} à {time}.",
    ),
)

FRAMES = tuple(Frame(en, de, french_spaces(fr)) for en, de, fr in _TEXTS)
