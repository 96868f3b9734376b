// The figures of a page by their elements.
const frames = new Map();

export const frameOf = (element) => frames.get(element);

export { frames };
