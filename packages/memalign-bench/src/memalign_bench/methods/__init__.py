"""The methods of the benchmark: everything that can be taught by labelled cases and then judges others."""
