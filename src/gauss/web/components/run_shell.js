// NiceGUI registers this file as the component; the rest are modules that it loads.
import { shell } from "gauss-web/app.js";
import { run } from "gauss-web/run.js";

export default shell(run);
