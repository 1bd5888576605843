// The connection to the registry: server-sent events, opened again whatever ends them.
const SILENT_MS = 5000; // the registry tells something each second
const RETRY_MS = [500, 1000, 2000, 4000];

export class Link {
  constructor({ onHistory, onSnapshot, onState }) {
    this.take = { onHistory, onSnapshot, onState };
    this.failures = 0;
    this.heard = 0;
    this.open();
    setInterval(() => this.watch(), 1000);
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible" && !this.source) this.open();
    });
  }

  open() {
    clearTimeout(this.timer);
    this.heard = performance.now();
    const source = (this.source = new EventSource("events"));
    source.addEventListener("history", (event) => this.take.onHistory(JSON.parse(event.data)));
    source.addEventListener("message", (event) => {
      this.heard = performance.now();
      this.failures = 0;
      this.take.onState("live");
      this.take.onSnapshot(JSON.parse(event.data));
    });
    source.addEventListener("full", () => this.lose("too many viewers: trying again"));
    source.addEventListener("error", () => this.lose("the registry does not answer: trying again"));
  }

  lose(why) {
    this.source?.close();
    this.source = null;
    this.take.onState("lost", why);
    const wait = RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)];
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), wait);
  }

  watch() {
    if (this.source && performance.now() - this.heard > SILENT_MS) {
      this.lose("the registry says nothing: trying again");
    }
  }
}
