// Says to whom the console was refused, and where that person may go instead.
import { who } from "./session.js";

const me = who();
if (me) document.querySelector("#who").textContent = me.sub;
document.querySelector("#queue").hidden = !me?.roles.includes("instructor");
