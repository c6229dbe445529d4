// NiceGUI registers this file as the component; the rest are modules that it loads.
import { shell } from "gauss-web/app.js";
import { fleet } from "gauss-web/fleet/site.js";

export default shell(fleet);
