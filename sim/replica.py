"""One replica in one global step: its steps, re-planned by arithmetic when something hits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.pace import Pace, from_step
from sim.phase import Phase, step_begins_s
from sim.pipeline import Crew
from sim.places import NEVER_S
from sim.policies import Action, Vacancy
from sim.terms import Terms
from sim.timeline import Interval

Span = tuple[float, float]


@dataclass(eq=False)
class ReplicaRound:
    """What a replica does from the opening of a round to the exchange (rules 1-3, 7, 10).

    An attempt is a run of H inner steps. It finishes, or it stops: then all its work is lost, and
    under `wait` another begins when the last slot is ready. Instants are exact.
    """

    terms: Terms
    action: Action = Action.IDLE
    """RUN or SKIP: the attempt will have finished at `end_s`; IDLE or WAIT: stopped."""
    end_s: float = 0.0
    again_s: float = 0.0
    """Under `wait`, the next attempt begins no earlier."""
    release_s: float = 0.0
    """When the exchange need no longer wait for this replica; never while it waits itself."""
    discarded_uploads: list[int] = field(default_factory=list)
    """Stages whose upload was begun and thrown away with its attempt."""
    pace: Pace = ()
    """How fast its workers are in this round."""
    crew: Crew | None = None
    """What its hops depend on."""
    _begun_s: float = 0.0
    _known_s: float = 0.0  # when the last lost upload that others wait for was known
    _phases: list[Phase] = field(default_factory=list)  # the attempt's steps, done and planned
    _lost: list[Span] = field(default_factory=list)  # in this attempt
    _lost_before: list[Span] = field(default_factory=list)  # in earlier ones
    _discarded: list[Phase] = field(default_factory=list)
    _here: list[bool] = field(default_factory=list)
    _leaves_s: list[float] = field(default_factory=list)
    _gone_s: list[float] = field(default_factory=list)
    _vacancies: list[Vacancy] = field(default_factory=list)  # of those away, and announced to be

    # --- what happens to it ---------------------------------------------------------------

    def begin(
        self,
        t_s: float,
        here: Sequence[bool],
        leaves_s: Sequence[float],
        pace: Pace = (),
        vacancies: Sequence[Vacancy] = (),
        crew: Crew | None = None,
    ) -> None:
        """Start an attempt at t.

        Args:
            here, leaves_s: [S] slots that take part; announced removals.
            pace: how fast its workers are.
            vacancies: [S] of those who do not, or will leave; read only if answers age.
            crew: what its hops depend on.
        """
        self._lost_before += self._lost_now()
        self._discarded += self._thrown_away()
        self._lost = []
        self._begun_s = self._known_s = t_s
        self._here, self._leaves_s = list(here), list(leaves_s)
        self.pace, self.crew = pace, crew
        self._gone_s = [NEVER_S] * len(here)
        self._vacancies = list(vacancies) or [Vacancy()] * len(here)
        self._phases = []
        self._go_on(t_s, 0)
        self._set_release()

    def copy(self) -> ReplicaRound:
        """One like it, that goes on by itself."""
        other = ReplicaRound(self.terms)
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, list) else value)
        return other

    def lose(self, stage: int, t_s: float, known_s: float, vacancy: Vacancy | None = None) -> None:
        """The worker of a stage is gone at t, and the replica notices at `known_s`.

        Args:
            vacancy: of the slot, if it began earlier: in the download of the round before.
        """
        self._here[stage], self._gone_s[stage] = False, t_s
        self._vacancies[stage] = vacancy or Vacancy(t_s)
        if self._runs(t_s):
            if any(phase.mask[stage] for phase in self._phases if t_s < phase.end_s):
                self._lose_step(t_s, known_s)
        elif stage in self.uploading() and not self._is_sent(stage, t_s):
            self._lose_upload(stage, known_s)
        elif not self.finished and t_s < self.end_s and self._stops(stage, known_s):
            end_s = min(self.end_s, known_s)  # the sooner known one counts
            self._stop(end_s, self._answer(self._here, end_s))
        self._set_release()

    def give_up(self, t_s: float) -> None:
        """It waits no more, and idles."""
        self.action, self._known_s = Action.IDLE, t_s
        self._set_release()

    def announce(self, stage: int, t_s: float, gone_s: float) -> None:
        """A notice at t: the slot starts no step that would end after its removal (rule 10).

        A running step goes on. If the removal comes before its end, that is a loss like another,
        but for the detection.
        """
        self._leaves_s[stage] = min(self._leaves_s[stage], gone_s)
        self._vacancies[stage] = Vacancy(self._leaves_s[stage])
        if self._runs(t_s) and self._here[stage]:
            phase = self._phase_at(t_s)
            k = phase.completed(t_s)
            if phase.instant(k) < t_s:
                k += 1
            self._go_on(phase.instant(k), self._keep(phase, k))
        elif stage in self._uploads() and not self._is_sent(stage, gone_s):
            self._known_s = t_s  # the upload is hopeless since now
        self._set_release()

    def cut(self, t_s: float) -> None:
        """The exchange has begun without it: for the trainer it idled the whole round (rule 1)."""
        if not self._runs(t_s):
            self.discarded_uploads += self.uploading()
        self._phases = [p.cut(begun) for p in self._phases if (begun := p.begun(t_s))]
        self._stop(t_s, Action.IDLE)
        self._set_release()

    # --- what it says ---------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        return self.action <= Action.SKIP

    @property
    def waits(self) -> bool:
        """Stopped or never started, and will start (again) when its slots are ready."""
        return self.action is Action.WAIT

    def planned_s(self, inner_step: int) -> float:
        """When the plan begins an inner step; the start of the attempt if it has no such step."""
        return step_begins_s(self._phases, inner_step, self._begun_s)

    def kept(self) -> list[Phase]:
        """Steps that count."""
        return self._phases if self.finished else []

    def discarded(self) -> list[Phase]:
        """Steps that ran and were thrown away; their traffic was real."""
        return self._discarded + self._thrown_away()

    def steps(self) -> list[int]:
        """[S] inner steps of each slot that count."""
        kept = self.kept()
        return [sum(p.steps for p in kept if p.mask[s]) for s in range(self.terms.stages)]

    def uploading(self) -> list[int]:
        """Stages that trained in the last inner step."""
        return [s for last in self.kept()[-1:] for s, live in enumerate(last.mask) if live]

    def sends(self, exchange_s: float) -> list[bool]:
        """[S] whether each slot's update is in the exchange that begins then."""
        complete = [False] * self.terms.stages
        for stage in self.uploading():
            out_s = min(self._gone_s[stage], self._leaves_s[stage])
            sent_s = self._upload_end_s(stage) if self.terms.via.uploads else exchange_s
            complete[stage] = sent_s <= out_s
        return complete

    def failed_uploads(self) -> list[int]:
        """Stages whose upload was begun and not completed."""
        sends = self.sends(self.end_s)  # without uploads none can fail
        return self.discarded_uploads + [s for s in self.uploading() if not sends[s]]

    def intervals(self) -> list[list[Interval]]:
        """[S] what the slots did, each in order, gaps left out: steps, lost, sync.

        Intervals are not yet clipped to the time the slot was present.
        """
        lost: list[Interval] = [(a, b, "lost") for a, b in self._lost_before + self._lost_now()]
        kept, uploading = self.kept(), self.uploading()
        found = []
        for stage in range(self.terms.stages):
            mine = lost + [(p.start_s, p.end_s, "steps") for p in kept if p.mask[stage]]
            if stage in uploading:
                mine.append((self.end_s, self._upload_end_s(stage), "sync"))
            found.append(sorted(mine))
        return found

    # --- arithmetic -----------------------------------------------------------------------

    def _upload_end_s(self, stage: int) -> float:
        return self.end_s + self.terms.uploads_s(self.crew)[stage]

    def _uploads(self) -> list[int]:
        """Stages that upload; none where the exchange takes the updates along."""
        return self.uploading() if self.terms.via.uploads else []

    def _is_sent(self, stage: int, t_s: float) -> bool:
        """Whether the upload has ended by t; never where the exchange takes the update along."""
        return self.terms.via.uploads and t_s >= self._upload_end_s(stage)

    def _set_release(self) -> None:
        """An upload that cannot end is not waited for, unless its replica will start again."""
        self.release_s = NEVER_S if self.waits else max(self.end_s, self._known_s)
        uploaded = self.sends(self.end_s)
        for stage in self.uploading():
            if uploaded[stage]:
                self.release_s = max(self.release_s, self._upload_end_s(stage))
            elif self._here[stage] and self._starts_again(stage, self._leaves_s[stage]):
                self.release_s = NEVER_S

    def _answer(self, here: Sequence[bool], at_s: float) -> Action:
        return self.terms.answer(here, at_s, self._vacancies)

    def _stops(self, stage: int, at_s: float) -> bool:
        """Whether the vacancy of a stage by itself stops the replica."""
        return self._answer([s != stage for s in range(len(self._here))], at_s) > Action.SKIP

    def _starts_again(self, stage: int, at_s: float) -> bool:
        """Whether the loss of an upload makes the replica wait; complete ones need nobody."""
        sends = zip(self._here, self.sends(at_s), strict=True)
        kept = [s != stage and (on or sent) for s, (on, sent) in enumerate(sends)]
        return self._answer(kept, at_s) is Action.WAIT

    def _runs(self, t_s: float) -> bool:
        """Whether steps are planned after t."""
        return bool(self._phases) and t_s < self._phases[-1].end_s

    def _phase_at(self, t_s: float) -> Phase:
        """The phase that runs at t, or the next one if t lies in a detection."""
        return next(phase for phase in self._phases if t_s < phase.end_s)

    def _thrown_away(self) -> list[Phase]:
        """The steps of an attempt that is to stop, for want of a slot that will leave."""
        return [] if self.finished else self._phases

    def _lost_now(self) -> list[Span]:
        return [(self._begun_s, self.end_s)] if self._thrown_away() else self._lost

    def _lay(self, t_s: float, done: int) -> tuple[list[Phase], list[bool], float]:
        """The steps from t on, without those who are announced to leave.

        Returns:
            The steps; [S] who is here after the last one, or one that will not be; its instant.
        """
        here, planned = list(self._here), []
        while self._answer(here, t_s) <= Action.SKIP and done < self.terms.inner_steps:
            mask = tuple(here)
            slow, steps = from_step(self.pace, done, self.terms.inner_steps)
            step_s, _ = self.terms.times.of(mask, slow, self.crew)
            phase = Phase(t_s, steps, step_s, mask, slow)
            n = phase.completed(min(self._leaves_s[s] for s, live in enumerate(mask) if live))
            if n < phase.steps:
                next_s = phase.instant(n + 1)
                here = [live and self._leaves_s[s] >= next_s for s, live in enumerate(mask)]
            if n:
                planned.append(phase.cut(n))
            done, t_s = done + n, phase.instant(n)
        return planned, here, t_s

    def _go_on(self, t_s: float, done: int) -> None:
        """Plan the remaining steps from t on."""
        planned, here, t_s = self._lay(t_s, done)
        self.action = self._answer(here, t_s)
        self._phases += planned
        self.end_s = self.again_s = t_s
        if self.waits and self._answer(self._here, t_s) is not Action.WAIT:
            self.again_s = max(t_s, self._first_missed_s(here))

    def _first_missed_s(self, here: Sequence[bool]) -> float:
        """When the first of those that the plan does without is gone, so that one has to wait."""
        leaving = sorted((self._leaves_s[s], s) for s, on in enumerate(self._here) if on > here[s])
        left = list(self._here)
        for leaves_s, stage in leaving:
            left[stage] = False
            if self._answer(left, leaves_s) is Action.WAIT:
                return leaves_s
        return self.end_s

    def _keep(self, phase: Phase, k: int) -> int:
        """Drop the plan after k steps of a phase; steps that remain in all."""
        self._phases = self._phases[: self._phases.index(phase)]
        if k:
            self._phases.append(phase.cut(k))
        return sum(p.steps for p in self._phases)

    def _lose_step(self, t_s: float, known_s: float) -> None:
        """A loss before H: the running step is aborted, and repeated if the replica goes on."""
        phase = self._phase_at(t_s)
        k = phase.completed(t_s)
        from_s = phase.instant(k)
        if from_s < t_s:
            self._discarded.append(phase._replace(start_s=from_s, steps=1))
        done = self._keep(phase, k)
        action = self._answer(self._here, known_s)
        if action > Action.SKIP:
            self._stop(known_s, action)
        else:
            resume_s = max(known_s, from_s)  # an earlier loss may be known later
            self._lost.append((from_s, resume_s))
            self._go_on(resume_s, done)

    def _lose_upload(self, stage: int, known_s: float) -> None:
        """A loss after H costs only the lost slot, and only if its own upload was unfinished.

        Under `wait` the slot's state of this round goes with it, so the replica starts again.
        """
        if self._starts_again(stage, known_s):
            self.discarded_uploads += self._uploads()
            self._stop(known_s, Action.WAIT)
        else:
            self._known_s = max(self._known_s, known_s)

    def _stop(self, known_s: float, action: Action) -> None:
        """The attempt is over, its work lost; others go on when that is known."""
        self._discarded += self._phases
        self._lost = [(self._begun_s, known_s)]
        self._phases, self.action = [], action
        self.end_s = self.again_s = known_s
