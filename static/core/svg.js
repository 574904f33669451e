// Elements of SVG that stand in a page.

const SPACE = "http://www.w3.org/2000/svg";

/**
 * An element of SVG with attributes and children, texts among them.
 * @param {string} tag
 * @param {{[name: string]: any}} [attributes]
 * @param {...any} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== "") node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}
