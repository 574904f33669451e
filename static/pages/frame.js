// What every page has: its entry in the navigation, the keys and the help, and links that lead back to where a page was
// left.

import "../core/navigation.js";
import "../help/keyhelp.js";
import "../workbench/tabmemory.js";
