// Die Texte der Führung auf Deutsch.

/** @type {{[key: string]: string}} */
export default {
  "offer.title": "Sind Sie zum ersten Mal hier?",
  "offer.text": "Fünf Schritte zeigen Ihnen, was diese Seite kann. Später finden Sie sie oben unter „?“ wieder.",
  "offer.yes": "Führung beginnen",
  "offer.no": "Nein, danke",
  step: "Schritt {i} von {n}",
  next: "Weiter",
  back: "Zurück",
  leave: "Beenden",
  done: "Fertig",
  "input.title": "Ihr Bild",
  "input.text":
    "So hat das Modell das Bild gesehen. Daneben steht, was es darin erkennt und wie sicher es ist. Laden Sie ein anderes Bild oder wählen Sie eine andere Klasse, dann werden alle Karten neu berechnet.",
  "plate.title": "Eine Tafel",
  "plate.signed":
    "Eine Tafel ist die Antwort einer Methode auf eine Frage: Welche Teile des Bildes haben das Modell zu seiner Antwort gebracht? Diese Methode kennt zwei Richtungen: Rot spricht für die Klasse, Blau gegen sie. Unter ihrem Namen steht, wie sie in Tests abgeschnitten hat; der Name führt zu ihrer Seite.",
  "plate.unsigned":
    "Eine Tafel ist die Antwort einer Methode auf eine Frage: Welche Teile des Bildes haben das Modell zu seiner Antwort gebracht? Diese Methode kennt nur die Stärke: Je heller eine Stelle, desto mehr hat sie gezählt, ob für die Klasse oder gegen sie. Unter ihrem Namen steht, wie sie in Tests abgeschnitten hat; der Name führt zu ihrer Seite.",
  "hold.title": "Zeigen und festhalten",
  "hold.text":
    "Zeigen Sie auf ein Feld: Alle Tafeln umranden dasselbe Feld und nennen seinen Wert. Ein Klick hält es fest, damit Sie in Ruhe vergleichen können. Mit der Tastatur: Die Pfeiltasten führen von Feld zu Feld, Pos1 springt zum stärksten, Esc lässt los.",
  "hold.finger":
    "Tippen Sie auf ein Feld: Alle Tafeln umranden dasselbe Feld und nennen seinen Wert, damit Sie vergleichen können. Tippen Sie noch einmal darauf, um es loszulassen.",
  "methods.title": "Methoden wählen",
  "methods.text":
    "Vorne stehen die Methoden, die in Tests am besten waren. Hier wählen Sie andere aus: eine fertige Zusammenstellung oder einzelne nach ihrem Namen. Dieselbe Methode lässt sich mit verschiedenen Regeln anwenden; eine Regel legt fest, wie das Signal durch das Modell zurückläuft.",
  "test.title": "Der Deletion-Test",
  "test.bar":
    "Die Methoden widersprechen einander, also stellen Sie sie auf die Probe. Ziehen Sie am Regler, und jede Tafel verliert, was ihre eigene Karte für das Wichtigste hält: Je besser die Karte, desto eher ändert das Modell seine Antwort. Einer Karte, die nicht besser ist als der Zufall, sollten Sie nicht glauben.",
  "test.random":
    "Die Methoden widersprechen einander, also glauben Sie einer Karte nicht nur, weil sie gut aussieht. Diese Tafel weiß nichts: Sie ist reiner Zufall. Eine Karte, die sich von ihr nicht unterscheiden lässt, sagt nichts aus.",
  "test.choose":
    "Die Methoden widersprechen einander, also glauben Sie einer Karte nicht nur, weil sie gut aussieht. Wählen Sie auch „Random“, den reinen Zufall: Eine Karte, die sich davon nicht unterscheiden lässt, sagt nichts aus.",
};
