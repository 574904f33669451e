// A place of a page on which files can be dropped.

/**
 * Take what is dropped on a place, which has the class `over` while something is held over it.
 * @param {HTMLElement} place
 * @param {(data: DataTransfer) => void} onDrop
 */
export function acceptDrops(place, onDrop) {
  for (const type of ["dragover", "dragleave", "drop"])
    place.addEventListener(type, (event) => {
      event.preventDefault();
      place.classList.toggle("over", type === "dragover");
      const { dataTransfer } = /** @type {DragEvent} */ (event);
      if (type === "drop" && dataTransfer) onDrop(dataTransfer);
    });
}
