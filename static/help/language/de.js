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
    "So hat das Modell das Bild gesehen. Die Karten erklären „{answer}“, dem es {share} gibt. Laden Sie ein anderes Bild oder wählen Sie eine andere Klasse, dann werden alle Karten neu berechnet.",
  "input.plain":
    "So hat das Modell das Bild gesehen. Die Karten erklären „{answer}“. Laden Sie ein anderes Bild oder wählen Sie eine andere Klasse, dann werden alle Karten neu berechnet.",
  "plate.title": "Eine Tafel",
  "plate.signed":
    "Jede Tafel ist die Karte einer Methode; die Antwort ist „{answer}“. {method} zeigt in Rot, was für „{answer}“ spricht; was dagegen spricht, wäre blau. Rang, Zeit und Hinweise öffnen sich unter i; „!“ steht, wo die Reihenfolge zweifelhaft ist.",
  "plate.unsigned":
    "Jede Tafel ist die Karte einer Methode; die Antwort ist „{answer}“. {method} zeigt nur die Stärke: Je heller eine Stelle, desto mehr zählt sie, ob für „{answer}“ oder dagegen. Rang, Zeit und Hinweise öffnen sich unter i; „!“ steht, wo die Reihenfolge zweifelhaft ist.",
  "hold.title": "Zeigen und festhalten",
  "hold.text":
    "Zeigen Sie auf ein Feld: Alle Tafeln umranden dasselbe Feld und nennen seinen Wert. Ein Klick hält es fest, damit Sie in Ruhe vergleichen können. Mit der Tastatur: Die Pfeiltasten führen von Feld zu Feld, Pos1 springt zum stärksten, Esc lässt los.",
  "hold.finger":
    "Tippen Sie auf ein Feld: Alle Tafeln umranden dasselbe Feld und nennen seinen Wert, damit Sie vergleichen können. Tippen Sie noch einmal darauf, um es loszulassen.",
  "methods.title": "Methoden wählen",
  "methods.text":
    "Hier wählen Sie andere Methoden aus: eine fertige Zusammenstellung oder einzelne nach ihrem Namen. Dieselbe Methode lässt sich mit verschiedenen Regeln anwenden; eine Regel legt fest, wie das Signal durch das Modell zurückläuft.",
  "test.title": "Jetzt Sie",
  "test.bar":
    "Nehmen Sie weg, was eine Karte markiert: Fällt die Antwort? Ziehen Sie am Regler, und jede Tafel verliert, was ihre eigene Karte am stärksten markiert. Unter jeder Tafel steht, was von „{answer}“ übrig bleibt. Drücken Sie danach auf „Curves“: Die gestrichelte Linie, „random baseline“, nimmt Teile in zufälliger Reihenfolge weg. Glauben Sie keiner Karte, die nicht besser ist.",
};
