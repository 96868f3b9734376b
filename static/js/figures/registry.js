// The figures of a page by their elements.
export const frames = new Map();

export const frameOf = (element) => frames.get(element);
