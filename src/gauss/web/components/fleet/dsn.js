// The address of a ClickHouse server as its parts. A password is shown masked, and sent only if it was typed anew.
const MASK = "********";

export function apart(dsn) {
  try {
    const url = new URL(dsn), password = decodeURIComponent(url.password);
    return { server: `${url.protocol}//${url.host}`, user: decodeURIComponent(url.username), password: password === MASK ? "" : password, kept: password !== "", rest: url.pathname.replace(/^\/$/, "") + url.search };
  } catch {
    return { server: dsn, user: "", password: "", kept: false, rest: "" };
  }
}
// Without a password that was typed, the saved one of the same server and user serves.
export function joined({ server, user, password, rest }) {
  let url;
  try { url = new URL(server.trim()); } catch { return server.trim(); }
  if (!user && !password) return `${url.protocol}//${url.host}${rest}`;
  return `${url.protocol}//${encodeURIComponent(user)}${password ? `:${encodeURIComponent(password)}` : ""}@${url.host}${rest}`;
}
