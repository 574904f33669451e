// Die Worte der Führung auf Deutsch.

/** @type {{[key: string]: string}} */
export default {
  "offer.title": "Sind Sie zum ersten Mal hier?",
  "offer.text": "Fünf Schritte zeigen, was auf dieser Seite ist. Sie finden sie oben unter ? wieder.",
  "offer.yes": "Führung beginnen",
  "offer.no": "Nein, danke",
  step: "Schritt {i} von {n}",
  next: "Weiter",
  back: "Zurück",
  leave: "Beenden",
  done: "Fertig",
  "specimen.title": "Ihr Bild",
  "specimen.text":
    "Das ist das Bild, wie das Modell es sah. Daneben steht, was das Modell sagt und wie sicher es ist. Geben Sie ein anderes Bild oder wählen Sie eine andere Klasse: Alle Karten werden neu berechnet.",
  "plate.title": "Eine Tafel",
  "plate.signed":
    "Eine Tafel ist die Antwort einer Methode auf eine Frage: Welche Teile des Bildes haben das Modell dazu gebracht? Diese Methode kennt zwei Richtungen: Rot spricht für die Klasse, Blau dagegen. Das Schild sagt, von wem die Methode stammt; ihr Name führt zu ihrer Seite.",
  "plate.unsigned":
    "Eine Tafel ist die Antwort einer Methode auf eine Frage: Welche Teile des Bildes haben das Modell dazu gebracht? Diese Methode kennt nur die Stärke: Je heller eine Stelle, desto mehr zählte sie, für die Klasse oder gegen sie. Das Schild sagt, von wem die Methode stammt; ihr Name führt zu ihrer Seite.",
  "hold.title": "Zeigen und festhalten",
  "hold.text":
    "Zeigen Sie auf ein Feld: Jede Tafel umrandet dasselbe Feld und nennt seinen Wert. Ein Klick hält es fest, damit Sie vergleichen können. Mit der Tastatur: Die Pfeiltasten gehen von Feld zu Feld, Pos1 springt zum stärksten, Escape lässt los.",
  "methods.title": "Methoden wählen",
  "methods.text":
    "Zuerst stehen die Methoden, die in Tests am besten waren. Hier wählen Sie andere: eine fertige Auswahl oder einzelne beim Namen. Dieselbe Methode kann mit mehreren Regeln arbeiten: Sie sagen, wie das Signal durch das Modell zurückläuft.",
  "test.title": "Die Karten prüfen",
  "test.dock":
    "Die Methoden widersprechen sich, also prüfen Sie sie. Ziehen Sie am Regler, und jede Tafel verliert, was ihre eigene Karte für das Wichtigste hält: Je besser die Karte, desto eher ändert das Modell seine Meinung. Einer Karte, die nicht besser ist als der Zufall, ist nicht zu glauben.",
  "test.random":
    "Die Methoden widersprechen sich, also glauben Sie keiner Karte, nur weil sie gut aussieht. Diese Tafel weiß nichts: Sie ist ausgelost. Eine Karte, die sich von ihr nicht unterscheiden lässt, sagt nichts.",
  "test.choose":
    "Die Methoden widersprechen sich, also glauben Sie keiner Karte, nur weil sie gut aussieht. Wählen Sie auch die Methode Random: Eine Karte, die sich von ihr nicht unterscheiden lässt, sagt nichts.",
};
