"""The dashboard: ``streamlit run app/main.py``. It shows and operates the queue at ``QUEUE_URL``."""
