// A mixin that reads again and again while its component is mounted and its tab is shown: `polling({ look: 2000 })` calls
// `look(signal)`, and again 2 s after each answer. Of each reading there is one at a time; a newer one aborts it. A `look`
// that returns false has read nothing.
export const polling = (pauses) => ({
  data: () => ({ problems: {} }),
  computed: {
    // Why the figures are old: the error of a reading, until one succeeds.
    error() { return Object.values(this.problems).find(Boolean) ?? null; },
  },
  mounted() {
    this.readings = {};
    for (const name of Object.keys(pauses)) this.again(name);
  },
  beforeUnmount() {
    for (const each of Object.values(this.readings)) each.abort();
    this.readings = null;
  },
  methods: {
    // Reads now, in place of a reading that is under way or waits. Resolves with its first answer.
    async again(name) {
      if (!this.readings) return; // it is no longer shown
      this.readings[name]?.abort();
      const { signal } = (this.readings[name] = new AbortController());
      let timer = null;
      signal.addEventListener("abort", () => clearTimeout(timer));
      const read = async () => {
        if (!document.hidden)
          try {
            const done = await this[name](signal);
            if (!signal.aborted && done !== false) this.problems[name] = null;
          } catch (error) {
            if (!signal.aborted) this.problems[name] = error;
          }
        if (!signal.aborted) timer = setTimeout(read, pauses[name]);
      };
      await read();
    },
  },
});
