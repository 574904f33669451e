"""The kinds of studies: what a loaded model can be asked besides explanations. Each is declared once, at the function that answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.host.work import Work
from vitrine_server.jobs.queue.study import SHORT, Task
from vitrine_server.settings import Settings

#: Answers a study in the process of the model. It goes there by its name: it is a function of a module.
Run = TypeVar("Run", bound=Callable[..., dict[str, Any]])


@dataclass(frozen=True)
class StudyKind:
    """A kind of study: how it is asked over HTTP, what answers it, and what it costs.

    path    the URL path of the call. With ``{id}`` it is about a stored explanation, and ``run`` gets its :class:`Subject`, then the
            question; else it is about the model that the form names, and ``run`` gets the question, the model, a function that returns
            whether to stop, and one that is told how many inputs of how many the model has answered.
    run     returns the answer as JSON. It may raise ExplainerError (answered 422) and Problem. Its name and docstring describe the call.
    answer  the pydantic model of the answer; for a study of an explanation it derives from ``Study`` of the schemas
    form    the pydantic model of the request's body; None for a study without a question
    weight  what may run between two of its passes, see :class:`Task`; or a function of the question
    cost    its name in the table of costs, by which the duration of the next one is estimated (empty for none), or a function of the
            question
    read    function from the form to the question; None: the question is the form itself. It may raise Problem.
    others  returns the ids of further explanations of the same model, whose inputs follow the question as arguments of ``run``
    tag     the group of calls in which OpenAPI lists it
    route   the route class, by which the size of a form is limited
    """

    path: str
    run: Callable[..., dict[str, Any]]
    answer: Any
    form: Any
    weight: int | Callable[[Any], int]
    cost: str | Callable[[Any], str]
    read: Callable[[Any, Settings], Awaitable[Any]] | None
    others: Callable[[Any], Sequence[str]]
    tag: str
    route: type[BodyRoute]

    def task(self, work: Work, question: Any, visitor: Visitor) -> Task:
        """Make the task of a study for the queue: ``work``, with the weight and the cost that this ``question`` has, for ``visitor``."""
        weight = self.weight if isinstance(self.weight, int) else self.weight(question)
        return Task(work, weight, self.cost if isinstance(self.cost, str) else self.cost(question), visitor)


#: Address -> kind of study, in the order in which they are declared.
STUDIES: dict[str, StudyKind] = {}


def study(
    path: str,
    *,
    answer: Any,
    form: Any = None,
    weight: int | Callable[[Any], int] = SHORT,
    cost: str | Callable[[Any], str] = "",
    read: Callable[[Any, Settings], Awaitable[Any]] | None = None,
    others: Callable[[Any], Sequence[str]] = lambda _: (),
    tag: str = "studies",
    route: type[BodyRoute] = BodyRoute,
) -> Callable[[Run], Run]:
    """Return a decorator that declares a kind of study at the URL ``path``: it is put on the function that runs the study. The other
    arguments are fields of :class:`StudyKind`.
    """

    def declare(run: Run) -> Run:
        if path in STUDIES:
            raise ValueError(f"{path} is the address of {STUDIES[path].run.__name__} already")
        STUDIES[path] = StudyKind(path, run, answer, form, weight, cost, read, others, tag, route)
        return run

    return declare
