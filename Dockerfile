# One server. Build: docker build -t orchestai . ; run it with compose.yaml, which says what it needs.
FROM python:3.12-slim
WORKDIR /app
COPY . /app
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu --extra-index-url https://pypi.org/simple \
      torch==2.13.0 \
 && pip install --no-cache-dir -c constraints.txt '.[serve,postgres]' \
 && pip install --no-cache-dir --no-deps -r requirements-embedded.txt
RUN useradd --create-home orchestai && mkdir /data && chown orchestai /data
USER orchestai
WORKDIR /data
EXPOSE 8080
ENTRYPOINT ["orchestai"]
CMD ["serve", "--host", "0.0.0.0"]
