package graphview

// Columns is the width of a line on a terminal.
var Columns = textWidth
