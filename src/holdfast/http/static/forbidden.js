// Says to whom the console was refused.
import { who } from "./session.js";

const me = who();
if (me) document.querySelector("#who").textContent = me.sub;
