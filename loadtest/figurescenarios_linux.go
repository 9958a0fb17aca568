package loadtest

// figureScenarios measure figures of their own. What they are about is in the file of each one's
// measure.
var figureScenarios = []Scenario{
	churnScenario,
	pushScenario,
	visibleScenario,
	selectorScenario,
	allPodsScenario,
	restartScenario,
	persistenceScenario,
	stallScenario,
	largestScenario,
}
