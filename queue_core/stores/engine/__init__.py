"""The verbs, written once for every store that runs inside this process.

``records`` is the seam below: what a store of records must offer inside one transaction.
``moves`` has the one function through which every task changes; ``deliver``, ``settle`` and
``operate`` are the verbs on top of it, ``read`` what can be asked.
"""
