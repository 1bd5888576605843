"""Jobs (`tidelog.bulk.jobs`): what a job says, as the options of what does it; the process that
does one; the queue of them."""
