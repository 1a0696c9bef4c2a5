"""What is shown: the line while it runs, and the table and the verdict in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from soaking.account import Account
from soaking.blows import Blows
from soaking.memory import LONG_ENOUGH, MIB, Memory

SHOWN = 3


@dataclass
class Report:
    """All that a soak comes to."""

    seed: int
    seconds: float
    """Of load."""
    account: Account
    blows: Blows
    memory: Memory
    complaints: list[str] = field(default_factory=list)
    """What went wrong beside: processes that did not stop, queues that did not drain."""

    def figures(self) -> dict[str, Any]:
        account = self.account
        duplicates, strange = account.duplicates()
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "accepted": account.counts["accepted"],
            "unsure": account.counts["unsure"],
            "done": sum(bool(fate.done) for fate in account.fates.values()),
            "tasks_per_second": round(account.counts["done"] / self.seconds, 1),
            "died": account.died(),
            "replayed": account.counts["replayed"],
            "bulks": account.counts["bulks"],
            "discarded": sum(fate.discarded for fate in account.fates.values()),
            "cancelled": account.counts["cancelled"],
            "broken_off": account.broken_off(),
            "duplicates": duplicates,
            "unexplained": len(strange),
            "lost": len(account.lost()),
            "blows": dict(sorted(self.blows.counts.items())),
            "recovery": {part: _spread(took) for part, took in account.recoveries().items()},
            "memory": {
                "redis_before": self.memory.before,
                "redis_after": self.memory.after,
                "start_middle_end": self.memory.table(),
            },
            "faults": self.faults(),
        }

    def faults(self) -> list[str]:
        """A sentence for each promise that did not hold."""
        account = self.account
        _, strange = account.duplicates()
        kinds = {
            "lost": account.lost(),
            "run although cancelled": account.unwanted(),
            "dead twice at a time": account.doubled(),
            "done twice, and no blow explains it": strange,
        }
        broken = [f"{len(names)} {what}: {_some(names)}" for what, names in kinds.items() if names]
        return [*self.complaints, *broken, *self.memory.growing()]

    def text(self) -> str:
        found = self.figures()
        rows = [
            ("accepted", f"{found['unsure']:,} more answered with an error: in or not in"),
            ("done", f"different ones; {found['tasks_per_second']:g} a second"),
            ("died", "were dead letters, once or more"),
            ("replayed", f"dead letters, in {found['bulks']} bulks and one by one"),
            ("discarded", "dead letters that nobody could mend"),
            ("cancelled", "before they ran"),
            ("broken_off", "runs of which no end is known: their process was killed"),
            ("duplicates", f"done again; {found['unexplained']} of them that no blow explains"),
            ("lost", ""),
        ]
        lines = [f"  {name:<11}{found[name]:>9,}   {meaning}" for name, meaning in rows]
        blows = ", ".join(f"{count} {what}" for what, count in found["blows"].items())
        lines += ["", f"  blows      {blows or 'none'} (seed {self.seed})"]
        lines += [
            f"  recovery   after {part:<10} median {took['median']:.1f} s, max {took['max']:.1f} s of {took['count']}"
            for part, took in found["recovery"].items()
            if took["count"]
        ]
        return "\n".join(["", *lines, "", *self._memory_lines(), ""])

    def _memory_lines(self) -> list[str]:
        memory = self.memory
        lines = [f"  {'MiB':<13}{'start':>8}{'middle':>8}{'end':>8}"]
        for name, used in memory.table().items():
            lines.append(f"  {name:<13}" + "".join(f"{one / MIB:>8.1f}" for one in used))
        lines.append(
            f"  Redis before the load {memory.before / MIB:.1f}, drained after it {memory.after / MIB:.1f}"
        )
        if not memory.is_judged():
            lines.append(
                f"  (under {LONG_ENOUGH:g} s of load: growth of the processes is not judged)"
            )
        return lines


def _spread(took: list[float]) -> dict[str, float]:
    if not took:
        return {"count": 0}
    return {"count": len(took), "median": round(median(took), 2), "max": round(max(took), 2)}


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN])
