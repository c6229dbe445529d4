// What the pages of database states add to a site: where they are, and how the rail names them.
import { defineAsyncComponent } from "vue";

const page = (name) => defineAsyncComponent(() => import(`./${name}.js`));

export const routes = [[/^\/db$/, page("list")], [/^\/db\/states\/([^/]+)$/, page("state")], [/^\/db\/jobs\/([^/]+)$/, page("job")]];
export const rail = ["/db", "db", "Databases", "g b"];
