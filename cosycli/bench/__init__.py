"""Measures setups of the engine against each other: a process of its own for each, in turns, figures over all rounds.

setups     what to measure, and the texts          child      one setup in a process of its own
rounds     who is measured when, and the result    figures    what is measured, over texts and rounds
compare    ratios and what they mean               tune       the best way to open graphs here
machine    where it was measured                   chart      the figures drawn
"""
