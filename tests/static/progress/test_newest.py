"""Of several questions, the last one alone is answered."""

from __future__ import annotations

from tests.support.node import compute_all

ASK = """async ({first, second}) => {
  const { Newest } = await script("progress/newest.js");
  const newest = new Newest(), signals = [];
  const ends = [];
  const asked = [first, second].filter(Boolean).map((ending) => {
    const answer = newest.ask((signal) => {
      signals.push(signal);
      return new Promise((resolve, reject) => ends.push(() => (ending === "fails" ? reject(new Error("away")) : resolve(ending))));
    });
    return answer.then((value) => value ?? "nothing", (problem) => problem.message);
  });
  for (const end of ends) end();
  return [await Promise.all(asked), signals.map((signal) => signal.aborted)];
}"""
CASES = [
    ({"first": "one"}, [["one"], [False]]),
    ({"first": "fails"}, [["away"], [False]]),
    ({"first": "one", "second": "two"}, [["nothing", "two"], [True, False]]),
    ({"first": "fails", "second": "two"}, [["nothing", "two"], [True, False]]),
    ({"first": "one", "second": "fails"}, [["nothing", "away"], [True, False]]),
]


def test_the_newest_question_alone_is_answered() -> None:
    assert compute_all(ASK, [asked for asked, _ in CASES]) == [said for _, said in CASES]
