// Package graphview draws a graph of steps: as text for a terminal, as DOT, as Mermaid and as SVG.
//
// A View is plain data. FromGraph and FromSpec make one of a compiled graph or a parsed file, View.With adds what a
// run has come to. Text, DOT, Mermaid and SVG are pure functions of a View: the same View gives the same bytes, any
// View gives a drawing (a cycle or an edge to nowhere too), and ids and labels are escaped for where they land.
// Work is bounded: what is too large for a drawing is folded or becomes a list, so 10,000 nodes take no time to
// speak of.
//
// Text and SVG share one layout: longest-path layers, long edges bent in every layer they pass, order by barycenters,
// and coordinates by isotonic regression, which gives the best places that keep order and distance.
//
// The package knows nothing of terminals, files, databases or time.
package graphview
