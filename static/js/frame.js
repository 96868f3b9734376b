// What every page runs.
import "./shell.js";
import "./forms.js";
import "./live.js";
import "./keys.js";
import "./lists.js";
import "./copy.js";
import "./submits.js";
