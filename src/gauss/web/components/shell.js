// NiceGUI registers this file as the component; the rest are modules that it loads.
export { default } from "gauss-web/app.js";
