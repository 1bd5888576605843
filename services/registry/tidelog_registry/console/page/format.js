// Numbers and moments as a person wants them.
export function duration(ms) {
  if (ms === null || ms === undefined) return "not known";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = Math.floor(ms / 1000) % 60;
  if (minutes < 60) return `${minutes} min ${String(seconds).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} days`;
}

export function count(value) {
  if (value < 10_000) return Math.round(value).toLocaleString("en");
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 100_000 ? 1 : 0)} k`;
  return `${(value / 1_000_000).toFixed(1)} M`;
}

export function rate(value) {
  if (value === null || value === undefined) return "not known";
  if (value > 0 && value < 10) return value.toFixed(1);
  return count(value);
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export function moment(ms) {
  const then = new Date(ms);
  const today = new Date().toDateString() === then.toDateString();
  return today ? CLOCK.format(then) : `${DAY.format(then)} ${CLOCK.format(then)}`;
}
