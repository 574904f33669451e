"""What an address asks for: what it may say is read, what is wrong in it is passed over, and a store tells its followers."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.support.node import compute, compute_all

READ = "async (search) => (await script('core/state.js')).readAddress(search)"
# What is written is read again, without a page: the address bar is a variable.
WRITTEN = """async ([question, view, focus]) => {
  globalThis.location = { pathname: "/image", search: "" };
  globalThis.history = { replaceState: (state, title, address) => (location.search = address.replace("/image", "")) };
  const { readAddress, writeAddress } = await script("core/state.js");
  const search = writeAddress(question, { ...readAddress("").view, ...view }, focus);
  return [search, readAddress(search)];
}"""
FOLLOWED = """async () => {
  const { Store } = await script("core/state.js");
  const store = new Store({ a: 1, b: 2 }), told = [];
  const stop = store.follow((now, before) => told.push([now.a, before.a]));
  store.set({ a: 3 });
  store.set({ a: 3 });
  stop();
  store.set({ a: 4 });
  return [told, store.value];
}"""


def test_an_empty_address_asks_for_nothing() -> None:
    asked = compute(READ, "")
    nothing = {"id": None, "source": None, "model": None, "compare": None, "sample": None}
    assert {name: asked[name] for name in nothing} == nothing
    assert (asked["targets"], asked["prompts"], asked["methods"], asked["side"], asked["focus"]) == ([], [], [], "image", -1)


def test_what_is_wrong_in_an_address_is_passed_over() -> None:
    begin = compute(READ, "")
    wrong = {
        "evidence": "x",
        "grid": "round",
        "opacity": "101",
        "threshold": "-1",
        "removed": "x",
        "pair": "0",
        "regions": "<b>",
        "order": "some",
        "side": "x",
        "focus": "1.5",
    }
    assert compute_all(READ, [f"?{urlencode({name: value})}" for name, value in wrong.items()]) == [begin] * len(wrong)


def test_what_is_written_is_read_again_and_what_is_as_it_begins_is_left_out() -> None:
    question = {"model": "clip", "prompt": ["a dog", "a & b"], "methods": ["rollout", "fullgrad_plus:libra"], "sample": None}
    view = {"evidence": "for", "opacity": 35, "pair": "0-1", "regions": "fullgrad_plus:libra?a=1", "order": "least", "removed": 50}
    search, asked = compute(WRITTEN, [question, view, 7])
    assert (asked["model"], asked["prompts"], asked["methods"]) == (question["model"], question["prompt"], question["methods"])
    assert {name: asked["view"][name] for name in view} == view
    assert asked["focus"] == 7
    assert "sample" not in search
    assert "grid" not in search
    assert compute(WRITTEN, [{}, {}, -1])[0] == ""


def test_followers_are_told_of_what_changed_until_they_stop() -> None:
    told, value = compute(FOLLOWED)
    assert told == [[3, 1]]
    assert value == {"a": 4, "b": 2}
