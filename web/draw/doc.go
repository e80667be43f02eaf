// Package draw makes the small pictures of pages as SVG: where steps stand in time, how far a run is.
//
// Positions are attributes, in percent of the width, since the policy of our pages refuses styles in elements; colours are
// classes of the style sheet. It and web/loghtml are the only packages that make HTML themselves.
package draw
