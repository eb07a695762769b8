"""Many texts into many audio files: finding them, planning, telling what is done already, making the rest.

inputs       what the user named -> texts to read
plan         texts -> jobs: which file, from which text, done or not
fingerprint  what a finished file says of how it was made
make         jobs -> files, one after the other
progress     what is shown meanwhile

Knows no model: speech comes from a function that turns text into chunks.
"""
