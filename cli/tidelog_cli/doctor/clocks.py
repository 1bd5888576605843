"""Do the machines agree on what time it is? Pure."""

from __future__ import annotations

from tidelog_cli.doctor.finding import About, Finding

CHECK = "clock"
LIMIT_S = 60.0
"""`clock-skew-s` of every service, by default."""
NOTABLE_S = 5.0
_NTP = "set it by NTP (chrony, systemd-timesyncd)"


def skew(whose: str, its_ms: float, our_ms: float) -> Finding:
    """Its clock beside this machine's."""
    about = About(CHECK, whose)
    ahead_s = (its_ms - our_ms) / 1000
    where = f"{abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine's"
    if abs(ahead_s) > LIMIT_S:
        says = f"its clock is {where}: more than the {LIMIT_S:.0f} s that are allowed"
        return about.wrong(says, f"{_NTP}, there or here")
    if abs(ahead_s) > NOTABLE_S:
        return about.warning(f"its clock is {where}", f"{_NTP}, there or here")
    return about.ok("its clock agrees with this machine's")
