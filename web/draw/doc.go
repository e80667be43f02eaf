// Package draw makes the small pictures of pages as SVG: where steps stand in time, how far a run is.
//
// Positions are attributes, in percent of the width, because our Content-Security-Policy forbids style attributes. Colours are
// classes of the style sheet. Besides web/loghtml, this is the only package that builds HTML itself.
package draw
