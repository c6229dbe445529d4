// Discards of dead letters that can still be undone. They go on when their page is left; leaving the pages ends their time.
import { reactive } from "vue";
import * as api from "./api.js";
import { plural } from "./format.js";
import { toast } from "./live.js";

const waiting = reactive([]);
export const keyOf = (each) => [each.sync ?? "", each.processor, each.reason, each.stage].join("\n");

export const isHidden = (letter) => waiting.some((each) => each.key === keyOf(letter) && (each.offsets?.includes(letter.dead_offset) ?? letter.dead_offset < each.before));
export const left = (group) => group.count - waiting.reduce((sum, each) => sum + (each.key === keyOf(group) ? each.count : 0), 0);
// To be called with figures that were read after the discards that are done.
export const forget = () => waiting.splice(0, waiting.length, ...waiting.filter((each) => !each.done));
// Ends the time of all discards: nothing that is hidden may be replayed.
export const settle = () => Promise.all(waiting.map((each) => each.finish()));

// `choice`: `offsets` of letters, or `before`: all of the group up to the newest that was shown. `changed(error)` is called
// when it is undone or done.
export function discard({ processor, reason, stage }, choice, count, changed) {
  const one = reactive({ key: keyOf({ processor, reason, stage }), ...choice, count, done: false });
  waiting.push(one);
  const undo = () => {
    waiting.splice(waiting.indexOf(one), 1);
    changed(null);
  };
  const then = async () => {
    let error = null;
    try {
      const { discarded } = await api.post("/api/dlq/discard", { processor, reason, stage, ...choice });
      if (discarded < count) error = { message: `${plural(discarded, "dead letter was", "dead letters were")} discarded, not ${count}`, hint: "the others were replayed or discarded by somebody else meanwhile" };
    } catch (refused) {
      error = refused;
    }
    one.done = true;
    await changed(error);
  };
  one.finish = toast(`${plural(count, "dead letter")} discarded`, { undo, then });
}
