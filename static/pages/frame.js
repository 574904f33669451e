// What every page has: the keys and the help, and links that lead back to where a page was left.

import "../help/keyhelp.js";
import "../workbench/tabmemory.js";
