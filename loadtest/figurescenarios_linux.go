package loadtest

// figureScenarios measure figures of their own. The file of each measure function describes the
// scenario.
var figureScenarios = []Scenario{
	churnScenario,
	pushScenario,
	visibleScenario,
	selectorScenario,
	allPodsScenario,
	restartScenario,
	idleScenario,
	persistenceScenario,
	replicasScenario,
	joinScenario,
	stallScenario,
	largestScenario,
	kedaScenario,
}
