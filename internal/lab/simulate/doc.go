// Package simulate decides "what if" questions: it drives the shipped planner,
// executor and hedging over simulated rings and servers, in virtual time, and reports
// the outcome. A cluster of a hundred nodes that pause and slow down fits into a
// test.
package simulate
