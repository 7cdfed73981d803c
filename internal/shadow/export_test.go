package shadow

// FindNodesIn is FindNodes with another /proc.
var FindNodesIn = findNodes
