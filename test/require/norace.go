//go:build !race

package require

const raceDetector = false
